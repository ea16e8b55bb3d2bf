//! Rust text with comments and literals blanked out, so that a rule can search code and nothing else.

/// One Rust file, blanked. Lines keep their numbers.
pub(super) struct Source {
    /// The text with comments, strings and character literals replaced by spaces.
    pub(super) code: String,
    /// The other half: comments only.
    pub(super) comments: String,
    /// Whether a line lies in a `#[cfg(test)]` module, by line number less one.
    in_test: Vec<bool>,
}

impl Source {
    pub(super) fn of(text: &str) -> Self {
        let (code, comments) = split(text);
        let in_test = test_lines(&code);
        Self { code, comments, in_test }
    }

    pub(super) fn is_test_line(&self, line: usize) -> bool {
        self.in_test.get(line - 1).copied().unwrap_or(false)
    }

    /// The code of a line.
    pub(super) fn line(&self, line: usize) -> &str {
        self.code.lines().nth(line - 1).unwrap_or_default()
    }

    /// The line of each place where `pattern` stands in the code, not as part of a longer name.
    pub(super) fn find<'a>(&'a self, pattern: &'a str) -> impl Iterator<Item = usize> + 'a {
        find(&self.code, pattern)
    }

    /// The line of each place where `word` stands in a comment.
    pub(super) fn find_in_comments<'a>(&'a self, word: &'a str) -> impl Iterator<Item = usize> + 'a {
        find(&self.comments, word)
    }

    /// Each `pub use` statement: its line and its text up to the semicolon.
    pub(super) fn pub_uses(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code.match_indices("pub use ").map(|(at, _)| {
            let rest = &self.code[at..];
            let end = rest.find(';').map_or(rest.len(), |end| end + 1);
            (line_of(&self.code, at), &rest[..end])
        })
    }
}

fn find<'a>(text: &'a str, pattern: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(pattern).filter_map(move |(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + pattern.len()..].chars().next();
        let is_glued =
            |edge: Option<char>, next: Option<char>| edge.is_some_and(is_ident) && next.is_some_and(is_ident);
        let is_part_of_longer =
            is_glued(before, pattern.chars().next()) || is_glued(pattern.chars().next_back(), after);
        (!is_part_of_longer).then(|| line_of(text, at))
    })
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text[..at].matches('\n').count()
}

fn is_ident(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// What the scanner is inside of.
enum Inside {
    Code,
    LineComment,
    /// Block comments nest: the depth.
    BlockComment(usize),
    String,
    /// The number of `#` that close it.
    RawString(usize),
    Char,
}

/// Splits `text` into (code, comments), each as long as `text` in lines.
fn split(text: &str) -> (String, String) {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut comments = String::with_capacity(text.len());
    let mut inside = Inside::Code;
    let mut at = 0;
    while at < chars.len() {
        let (next, taken) = step(&inside, &chars[at..], at.checked_sub(1).map(|i| chars[i]));
        for &c in &chars[at..at + taken] {
            let blank = if c == '\n' { '\n' } else { ' ' };
            let is_comment = |i: &Inside| matches!(i, Inside::LineComment | Inside::BlockComment(_));
            let is_code = matches!((&inside, &next), (Inside::Code, Inside::Code));
            code.push(if is_code { c } else { blank });
            let in_comment = is_comment(&inside) || is_comment(&next);
            comments.push(if in_comment { c } else { blank });
        }
        at += taken;
        inside = next;
    }
    (code, comments)
}

/// What the scanner is inside of after the next characters, and how many they are.
fn step(inside: &Inside, rest: &[char], before: Option<char>) -> (Inside, usize) {
    let pair = (rest[0], rest.get(1).copied());
    match *inside {
        Inside::Code => step_code(rest, before),
        Inside::LineComment if rest[0] == '\n' => (Inside::Code, 1),
        Inside::LineComment => (Inside::LineComment, 1),
        Inside::BlockComment(depth) => match pair {
            ('/', Some('*')) => (Inside::BlockComment(depth + 1), 2),
            ('*', Some('/')) if depth == 1 => (Inside::Code, 2),
            ('*', Some('/')) => (Inside::BlockComment(depth - 1), 2),
            _ => (Inside::BlockComment(depth), 1),
        },
        Inside::String => match pair {
            ('\\', Some(_)) => (Inside::String, 2),
            ('"', _) => (Inside::Code, 1),
            _ => (Inside::String, 1),
        },
        Inside::RawString(hashes) => {
            let closes = rest[0] == '"' && rest[1..].iter().take_while(|&&c| c == '#').count() >= hashes;
            match closes {
                true => (Inside::Code, 1 + hashes),
                false => (Inside::RawString(hashes), 1),
            }
        }
        Inside::Char => match pair {
            ('\\', Some(_)) => (Inside::Char, 2),
            ('\'', _) => (Inside::Code, 1),
            _ => (Inside::Char, 1),
        },
    }
}

fn step_code(rest: &[char], before: Option<char>) -> (Inside, usize) {
    match (rest[0], rest.get(1).copied()) {
        ('/', Some('/')) => (Inside::LineComment, 2),
        ('/', Some('*')) => (Inside::BlockComment(1), 2),
        ('"', _) => (Inside::String, 1),
        ('r', Some('"' | '#')) if !before.is_some_and(|c| is_ident(c) && c != 'b' && c != 'c') => {
            let hashes = rest[1..].iter().take_while(|&&c| c == '#').count();
            match rest.get(1 + hashes) {
                Some('"') => (Inside::RawString(hashes), 2 + hashes),
                // A raw name such as `r#type`.
                _ => (Inside::Code, 1),
            }
        }
        // A lifetime opens with the same quote, but nothing closes it one character on.
        ('\'', Some('\\')) => (Inside::Char, 1),
        ('\'', Some(_)) if rest.get(2) == Some(&'\'') => (Inside::Char, 1),
        _ => (Inside::Code, 1),
    }
}

/// For each line of blanked code, whether it lies in a module (or item) under `#[cfg(test)]`.
fn test_lines(code: &str) -> Vec<bool> {
    let mut in_test = vec![false; code.lines().count()];
    for (at, _) in code.match_indices("#[cfg(test)]") {
        let rest = &code[at..];
        let Some(length) = item_length(rest) else {
            continue;
        };
        let first = line_of(code, at) - 1;
        let last = line_of(code, at + length) - 1;
        for line in in_test.iter_mut().take(last + 1).skip(first) {
            *line = true;
        }
    }
    in_test
}

/// The length of the item at the start of `code`: to its closing brace, or to its semicolon.
fn item_length(code: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (at, c) in code.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth <= 1 => return Some(at),
            '}' => depth -= 1,
            ';' if depth == 0 => return Some(at),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, word: &str) -> Vec<usize> {
        Source::of(text).find(word).collect()
    }

    #[test]
    fn words_are_found_in_code_and_not_in_comments_or_literals() {
        let text = r##"
let a = "loop"; // loop
/* loop /* loop */ loop */ let b = r#"loop " loop"#;
let c = 'l'; let d: &'static str = b"loop\" loop"; loop {}
"##;
        assert_eq!(lines(text, "loop"), [4]);
    }

    #[test]
    fn a_word_is_not_found_inside_a_longer_one() {
        assert_eq!(lines("looped(); a_loop(); loop_();\nloop {}", "loop"), [2]);
        assert_eq!(lines("my_thread::spawn();\nthread::spawn()", "thread::spawn"), [2]);
    }

    #[test]
    fn quotes_as_characters_do_not_open_strings() {
        assert_eq!(lines("let a = ('\"', '\\'', '\\\\');\nloop {}", "loop"), [2]);
        assert_eq!(lines("fn f<'a>(x: &'a str) {\nloop {} }", "loop"), [2]);
    }

    #[test]
    fn comments_can_be_searched_on_their_own() {
        let source = Source::of("let fixme = 1; // FIXME later\n// nothing");
        assert_eq!(source.find_in_comments("FIXME").collect::<Vec<_>>(), [1]);
        assert_eq!(source.find_in_comments("fixme").count(), 0);
    }

    #[test]
    fn lines_of_a_test_module_are_known() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() { let x = \"}\"; }\n}\nfn c() {}";
        let source = Source::of(text);
        let in_test: Vec<bool> = (1..=6).map(|line| source.is_test_line(line)).collect();
        assert_eq!(in_test, [false, true, true, true, true, false]);
    }
}
