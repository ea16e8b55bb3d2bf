/* A corridor with a door at its end: a whole child of PROTOCOL.md, in C without a library.
 *
 *     cc -std=c11 -O2 -Wall -Wextra -Werror corridor.c -o corridor
 *
 * Observations are the position and the steps of the episode so far; actions are 0 left and 1 right. Every step costs
 * 0.1, the door pays 1 and ends the episode. Config: {"length":5,"max_episode_steps":20}, which are also the defaults.
 *
 * To write a child of your own, put your environment in the place of this one and leave out the last part: there the
 * child lies if the config says so ({"lie":"size"}), so that what a parent checks can be tested.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PROTOCOL = 1, MEMORY_FD = 3, LIFELINE_FD = 4 };
enum call { RESET = 1, STEP = 2, RENDER = 3 };
enum end { GOES_ON = 0, TERMINATED = 1, TRUNCATED = 2, LIFE_LOST = 3 };
enum action { LEFT, RIGHT, ACTIONS };
enum { OBS_LEN = 2 };
enum { FRAME_BYTES = 1 << 24, CELL = 16 /* pixels */ };

/* `env` and `call` tell the parent where this process hung or died. They are volatile so that the compiler cannot put
 * off writing them until that has happened. */
struct header {
    char magic[4];
    uint32_t protocol, n_envs, n_agents;
    volatile uint32_t env, call;
    uint32_t message_bytes, frame_width, frame_height, frame_fps, keep_last, unused[5];
    char message[65472];
};
_Static_assert(offsetof(struct header, message) == 64 && sizeof(struct header) == 65536, "the header of PROTOCOL.md");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers in shared memory are little-endian");

struct episode {
    uint32_t position, steps;
    bool over;
};

struct child {
    /* What the parent's first line says. */
    uint32_t n_envs, length, max_episode_steps;
    bool autoreset, renders;
    char lie[16];
    /* One for each environment. */
    struct episode *episodes;
    /* The shared memory: a header, then one row for each environment. */
    struct header *header;
    uint64_t *seeds;
    uint32_t *actions;
    float (*observations)[OBS_LEN], (*final_observations)[OBS_LEN];
    double *rewards;
    uint8_t *ends, *asked, (*masks)[ACTIONS], *frame;
};

enum moment { FIRST_LINE, SECOND_LINE, BEGIN, RESET_ANSWER, STEP_ANSWER, FRAME_ANSWER, CLOSE };
static const char *misbehave(struct child *c, enum moment moment, const char *honest);

/* ---- The environment ---- */

static void observe(const struct episode *episode, float observation[OBS_LEN]) {
    observation[0] = (float)episode->position;
    observation[1] = (float)episode->steps;
}

/* Writes all that the next action is chosen from. */
static void show(struct child *c, uint32_t env) {
    const struct episode *episode = &c->episodes[env];
    observe(episode, c->observations[env]);
    c->masks[env][LEFT] = episode->position > 0;
    c->masks[env][RIGHT] = 1;
    if (!c->autoreset)
        c->asked[env] = !episode->over;
}

static void begin(struct child *c, uint32_t env) {
    c->header->env = env;
    c->header->call = RESET;
    c->episodes[env] = (struct episode){.position = c->seeds[env] % 3};
    misbehave(c, BEGIN, NULL);
    show(c, env);
}

/* Draws the corridor in white, the walker in black and the door in red. Returns whether that could be done; if not, the
 * header says why. */
static bool draw(struct child *c, uint32_t env) {
    uint32_t width = (c->length + 1) * CELL, walker = c->episodes[env].position;
    c->header->env = env;
    c->header->call = RENDER;
    if (width > FRAME_BYTES / 3 / CELL) {
        c->header->message_bytes = (uint32_t)sprintf(c->header->message,
            "a corridor of length %" PRIu32 " is too long to be drawn", c->length);
        return false;
    }
    for (uint32_t pixel = 0; pixel < width * CELL; pixel++) {
        uint32_t cell = pixel % width / CELL;
        uint8_t *rgb = c->frame + 3 * pixel;
        rgb[0] = cell == walker ? 0 : 255;
        rgb[1] = rgb[2] = cell == walker || cell == c->length ? 0 : 255;
    }
    c->header->frame_width = width;
    c->header->frame_height = CELL;
    c->header->frame_fps = 5;
    return true;
}

/* Returns whether the step could be taken; if not, the header says why. */
static bool step(struct child *c, uint32_t env) {
    struct episode *episode = &c->episodes[env];
    c->header->env = env;
    c->header->call = STEP;
    c->rewards[env] = 0;
    c->ends[env] = GOES_ON;
    if (episode->over)
        return true; /* nobody is asked here before the next reset: the action means nothing, what is shown stays */

    uint32_t action = c->actions[env];
    if (action >= ACTIONS) {
        c->header->message_bytes = (uint32_t)sprintf(c->header->message,
            "action %" PRIu32 " is neither %d (left) nor %d (right)", action, LEFT, RIGHT);
        return false;
    }
    if (action == RIGHT)
        episode->position++; /* never past the door, for there the episode is over */
    else if (episode->position > 0)
        episode->position--;
    episode->steps++;

    bool at_door = episode->position == c->length;
    bool at_limit = episode->steps == c->max_episode_steps;
    c->rewards[env] = at_door ? 0.9 : -0.1;
    c->ends[env] = at_door ? TERMINATED : at_limit ? TRUNCATED : GOES_ON;
    episode->over = c->ends[env] != GOES_ON;
    if (episode->over && c->autoreset) {
        observe(episode, c->final_observations[env]);
        if (c->header->keep_last == env + 1 && !draw(c, env))
            return false;
        begin(c, env);
    } else {
        show(c, env);
    }
    return true;
}

/* ---- The pipes ---- */

/* Without the flush the text would stay here while both sides wait for each other. */
static void say(const char *text) {
    if (fputs(text, stdout) == EOF || fflush(stdout) == EOF)
        exit(1); /* the parent is gone */
}

/* Ends the handshake with a reason, which becomes JSON as it is: no quotes or backslashes in it. */
static _Noreturn void fail(const char *format, ...) {
    va_list values;
    va_start(values, format);
    printf("{\"protocol\":%d,\"error\":\"", PROTOCOL);
    vprintf(format, values);
    va_end(values);
    say("\"}\n");
    exit(1);
}

/* The parent's next line; it is good until the one after. */
static const char *hear(void) {
    static char *line;
    static size_t capacity;
    ssize_t bytes = getline(&line, &capacity, stdin);
    if (bytes < 1 || line[bytes - 1] != '\n')
        exit(1); /* the parent is gone */
    return line;
}

/* ---- The handshake ---- */

/* Looking for a field by its name is enough for numbers like these; for more, take a library that reads JSON. */
static uint32_t number(const char *config, const char *field, long least, long otherwise) {
    const long most = 1 << 24; /* beyond it a float leaves numbers out */
    const char *found = strstr(config, field);
    if (found == NULL)
        return (uint32_t)otherwise;
    char *end;
    long value = strtol(found + strlen(field), &end, 10);
    if ((*end != ',' && *end != '}') || value < least || value > most)
        fail("length must be a whole number from 3, as episodes begin at 0, 1 or 2, and max_episode_steps one from 1, "
             "both up to %ld: correct the config", most);
    return (uint32_t)value;
}

static void read_first_line(struct child *c) {
    const char *line = hear();
    unsigned protocol;
    if (sscanf(line, "{\"protocol\":%u", &protocol) != 1 || protocol != PROTOCOL)
        fail("this child speaks protocol %d only: start it from a parent that does", PROTOCOL);

    const char *format = "{\"protocol\":%*u,\"envs\":%" SCNu32 ",\"autoreset\":%5[a-z],\"config\":%n";
    char autoreset[6];
    int config_at = 0; /* stays so unless all before it is as expected */
    if (sscanf(line, format, &c->n_envs, autoreset, &config_at) != 2 || config_at == 0 || c->n_envs == 0)
        fail("the first line is not as PROTOCOL.md has it: correct the parent");
    c->autoreset = strcmp(autoreset, "true") == 0;

    const char *config = line + config_at, *render = "},\"render\":true}\n";
    size_t config_bytes = strlen(config), render_bytes = strlen(render);
    c->renders = config_bytes > render_bytes && strcmp(config + config_bytes - render_bytes, render) == 0;
    c->length = number(config, "\"length\":", 3, 5);
    c->max_episode_steps = number(config, "\"max_episode_steps\":", 1, 20);
    const char *lie = strstr(config, "\"lie\":");
    if (lie != NULL && sscanf(lie, "\"lie\":\"%15[a-z]", c->lie) != 1)
        fail("lie must be one of the words at the end of corridor.c: correct the config");
    if (strcmp(c->lie, "together") == 0)
        c->renders = false;
}

/* Has the kernel end this process group when the parent dies, even if an environment hangs then. */
static void arm_lifeline(void) {
    struct pollfd lifeline = {.fd = LIFELINE_FD};
    signal(SIGIO, SIG_DFL);
    if (fcntl(LIFELINE_FD, F_SETOWN, -getpgrp()) == -1 || fcntl(LIFELINE_FD, F_SETFL, O_ASYNC) == -1)
        fail("descriptor %d is not the lifeline of PROTOCOL.md: correct the parent", LIFELINE_FD);
    /* A parent that died before this was armed is never heard of again. */
    if (poll(&lifeline, 1, 0) != 0)
        exit(1);
}

static void introduce(struct child *c) {
    char line[512];
    snprintf(line, sizeof line,
        "{\"protocol\":%d,\"name\":\"Corridor\",\"max_episode_steps\":%" PRIu32 ",\"agents\":[{\"name\":\"agent\","
        "\"observation\":{\"box\":{\"low\":[0.0,0.0],\"high\":[%" PRIu32 ".0,\"inf\"],\"shape\":[%d],"
        "\"dtype\":\"f32\"}},"
        "\"action\":{\"discrete\":{\"n\":%d}},\"action_mask\":true}],\"one_by_one\":true%s}\n",
        PROTOCOL, c->max_episode_steps, c->length, OBS_LEN, ACTIONS, c->renders ? ",\"render\":true" : "");
    say(misbehave(c, FIRST_LINE, line));
}

/* Returns where this section is and moves `at` to the next. */
static void *section(uintptr_t *at, size_t n_rows, size_t row_bytes) {
    uintptr_t here = *at;
    *at += (n_rows * row_bytes + 63) / 64 * 64;
    return (void *)here;
}

/* The tables under "Layout" in PROTOCOL.md. Returns the bytes of all sections, which are the same from any `base`. */
static size_t lay_out(struct child *c, uintptr_t base) {
    uintptr_t at = base;
    c->header = section(&at, 1, sizeof *c->header);
    c->seeds = section(&at, c->n_envs, sizeof *c->seeds);
    c->actions = section(&at, c->n_envs, sizeof *c->actions);
    c->observations = section(&at, c->n_envs, sizeof *c->observations);
    if (c->autoreset)
        c->final_observations = section(&at, c->n_envs, sizeof *c->final_observations);
    c->rewards = section(&at, c->n_envs, sizeof *c->rewards);
    c->ends = section(&at, c->n_envs, sizeof *c->ends);
    if (!c->autoreset)
        c->asked = section(&at, c->n_envs, sizeof *c->asked);
    c->masks = section(&at, c->n_envs, sizeof *c->masks);
    if (c->renders)
        c->frame = section(&at, 1, FRAME_BYTES);
    return at - base;
}

static void map_memory(struct child *c) {
    size_t shared_bytes = lay_out(c, 0), told_bytes;
    if (sscanf(hear(), "{\"shared_bytes\":%zu}", &told_bytes) != 1 || told_bytes != shared_bytes)
        fail("the layout of PROTOCOL.md has %zu bytes here: compare that with what the parent counts", shared_bytes);
    struct stat memory;
    if (fstat(MEMORY_FD, &memory) == -1 || memory.st_size != (off_t)shared_bytes)
        fail("descriptor %d is not a memory of the %zu bytes agreed on: correct the parent", MEMORY_FD, shared_bytes);
    void *base = mmap(NULL, shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, MEMORY_FD, 0);
    if (base == MAP_FAILED)
        fail("could not map %zu bytes of shared memory: is the address space limited?", shared_bytes);

    lay_out(c, (uintptr_t)base);
    const struct header *header = c->header;
    if (memcmp(header->magic, "PRNK", 4) != 0 || header->protocol != PROTOCOL || header->n_envs != c->n_envs
        || header->n_agents != 1)
        fail("the header in the shared memory is not as PROTOCOL.md has it: correct the parent");
    char line[64];
    snprintf(line, sizeof line, "{\"shared_bytes\":%zu}\n", shared_bytes);
    say(misbehave(c, SECOND_LINE, line));
}

/* ---- The conversation ---- */

static const char *reset_from(struct child *c, uint32_t first, uint32_t end) {
    for (uint32_t env = first; env < end; env++) {
        c->rewards[env] = 0;
        c->ends[env] = GOES_ON;
        begin(c, env);
    }
    return "k";
}

static const char *step_from(struct child *c, uint32_t first, uint32_t end) {
    for (uint32_t env = first; env < end; env++)
        if (!step(c, env))
            return "e";
    return "k";
}

int main(void) {
    struct child c = {0};
    read_first_line(&c);
    arm_lifeline();
    c.episodes = calloc(c.n_envs, sizeof *c.episodes);
    if (c.episodes == NULL)
        fail("there is no memory for %" PRIu32 " environments: ask for fewer", c.n_envs);
    introduce(&c);
    map_memory(&c);

    int order;
    while ((order = getchar()) == 'r' || order == 's' || order == 'R' || order == 'S' || (order == 'p' && c.renders)) {
        if (order == 'p') {
            say(misbehave(&c, FRAME_ANSWER, draw(&c, c.header->env) ? "k" : "e"));
            continue;
        }
        bool is_for_one = order == 'R' || order == 'S';
        uint32_t first = is_for_one ? c.header->env : 0, end = is_for_one ? first + 1 : c.n_envs;
        say(order == 'r' || order == 'R' ? misbehave(&c, RESET_ANSWER, reset_from(&c, first, end))
                                         : misbehave(&c, STEP_ANSWER, step_from(&c, first, end)));
    }
    misbehave(&c, CLOSE, NULL);
    free(c.episodes);
    if (order == EOF)
        return 0; /* the parent needs no more */
    fprintf(stderr, "corridor: byte %d is not an order of protocol %d: correct the parent\n", order, PROTOCOL);
    return 1;
}

/* ---- Lies ---- */

static const char *complain(struct child *c, uint32_t env, uint32_t message_bytes, const char *message) {
    c->header->env = env;
    c->header->call = STEP;
    c->header->message_bytes = message_bytes;
    strcpy(c->header->message, message);
    return "e";
}

/* Returns what to say in the place of `honest`. Most lies about numbers and answers wait for the first step: by
 * then a parent that begins episodes as soon as it can has its environments. */
static const char *misbehave(struct child *c, enum moment moment, const char *honest) {
#define LIES(at, name) (moment == (at) && strcmp(c->lie, (name)) == 0)
    if (LIES(FIRST_LINE, "protocol")) return "{\"protocol\":2}\n"; /* nobody knows yet what else a protocol 2 says */
    if (LIES(FIRST_LINE, "json")) return "hello\n";
    if (LIES(FIRST_LINE, "long")) {
        for (int bytes = 0; bytes < 100 << 20; bytes++)
            if (putchar('x') == EOF) exit(1); /* the parent has heard enough */
        return "";
    }
    if (LIES(FIRST_LINE, "together")) { /* no lie: it leaves out what a child need not do */
        static char shorter[512];
        strcpy(shorter, honest);
        strcpy(strstr(shorter, ",\"one_by_one\""), "}\n");
        return shorter;
    }
    if (LIES(SECOND_LINE, "size")) return "{\"shared_bytes\":64}\n";
    if (LIES(FIRST_LINE, "naps")) usleep(c->n_envs * 1200000); /* no lie: each environment takes its time */
    if (LIES(BEGIN, "naps")) usleep(1200000);
    if (LIES(RESET_ANSWER, "unasked")) {
        say(honest);
        usleep(50000); /* long enough to be read by itself */
        return "k";
    }
    if (LIES(RESET_ANSWER, "leak")) { /* what was played before shows in the first observation */
        static int resets = 0;
        c->observations[0][1] += resets++;
    }
    if (LIES(STEP_ANSWER, "answer")) return "x";
    if (LIES(STEP_ANSWER, "extra")) return "kk";
    if (LIES(STEP_ANSWER, "env")) return complain(c, 99, 4, "lost");
    if (LIES(STEP_ANSWER, "message")) return complain(c, 0, 4000000000, "");
    if (LIES(STEP_ANSWER, "resize")) return ftruncate(MEMORY_FD, 0) == -1 ? complain(c, 0, 7, "refused") : "k";
    if (LIES(STEP_ANSWER, "ends")) c->ends[0] = 7;
    if (LIES(STEP_ANSWER, "lives") && c->ends[0] == GOES_ON) c->ends[0] = LIFE_LOST; /* as if each step cost one */
    if (LIES(STEP_ANSWER, "nan")) c->rewards[0] = NAN;
    if (LIES(STEP_ANSWER, "mask")) memset(c->masks, 0, c->n_envs * sizeof *c->masks);
    if (LIES(STEP_ANSWER, "late")) fputs("late\n", stderr); /* for who wants to know when */
    if (LIES(STEP_ANSWER, "late") || LIES(STEP_ANSWER, "mute")) sleep(100);
    if (LIES(STEP_ANSWER, "busy")) /* two milliseconds of processor time, however long they take */
        for (clock_t until = clock() + CLOCKS_PER_SEC / 500; clock() < until;);
    if (LIES(FRAME_ANSWER, "huge")) c->header->frame_width = c->header->frame_height = 100000;
    if (LIES(FRAME_ANSWER, "blank")) c->header->frame_width = c->header->frame_height = 0; /* it may have no frame */
    if (LIES(CLOSE, "slow")) {
        usleep(800000); /* longer than the threads of a run are waited for */
        fputs("closed\n", stderr);
    }
    if (LIES(CLOSE, "stuck"))
        for (;;) pause();
    if (LIES(STEP_ANSWER, "quiet")) {
        close(STDOUT_FILENO);
        for (;;) pause();
    }
    return honest;
}
