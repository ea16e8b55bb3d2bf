//! How loaders end, and that nothing is abandoned.

use super::*;

/// How a loader goes wrong.
#[derive(Clone, Copy, Debug)]
enum Wrong {
    Errs,
    Panics,
}

impl Wrong {
    fn go(self) -> LoadResult {
        match self {
            Self::Errs => Err("the device is gone".into()),
            // As a panic, but without the message on the test's output.
            Self::Panics => std::panic::resume_unwind(Box::new("the device is gone")),
        }
    }
}

fn ticketed(ledger: &StepLedger, number: u64) -> Numbered {
    Numbered { number, ticket: Some(ledger.sampled(Steps { env: 1, agent: 1 })) }
}

#[test]
fn a_failure_names_its_thread_and_ends_them_all() {
    for wrong in [Wrong::Errs, Wrong::Panics] {
        for round in 0..50 {
            let n_loaders = 1 + round % 4;
            let n_loads = Arc::new(AtomicUsize::new(0));
            let (bench, mut stacks) = set_up(n_loaders, 1 + round % 3, 4, move |_| {
                if n_loads.fetch_add(1, Ordering::Relaxed) == 5 { wrong.go() } else { Ok(()) }
            });
            let Bench { sender, time, shutdown } = bench;
            let ledger = StepLedger::new();
            let tickets = ledger.clone();
            // Ends when the source is gone with the adapter.
            let feeder = std::thread::spawn(move || while sender.push(ticketed(&tickets, 0)).is_ok() {});
            let failure = loop {
                match stacks.next(LONG) {
                    Ok(mut place) => place.ticket.take().unwrap().trained(),
                    Err(failure) => break failure.to_string(),
                }
            };
            let names = (1..=n_loaders).map(|n| format!("thread `loader-{n}`"));
            assert!(names.into_iter().any(|name| failure.contains(&name)), "{failure}");
            assert!(failure.contains("the device is gone") && failure.contains("`loading`"), "{failure}");
            assert!(matches!(stacks.next(LONG), Err(NextError::Closed)));
            stacks.join().unwrap();
            feeder.join().unwrap();
            assert!(time.read().iter().all(|thread| thread.current.is_none()), "{wrong:?}, round {round}");
            let totals = ledger.snapshot();
            assert!(totals.is_closed() && totals.in_flight == Steps::default(), "{totals:?}");
            assert!(totals.dropped["discarded"].env >= 1, "the batch in hand was dropped");
            drop(shutdown);
        }
    }
}

#[test]
fn a_loader_that_cannot_be_made_is_a_failure() {
    let (_guard, token) = shutdown();
    let (_sender, source) = inqueue::<Numbered>(1, Gate::Bounded, &token).unwrap();
    let parts = LoaderParts { source, stacks: places(1), time: TimeLedger::new(), token };
    let make = |number| if number == 2 { Err("no such device".into()) } else { Ok(Put(at_once)) };
    let mut stacks = LoaderStacks::start(config(2), parts, make).unwrap();
    let failure = stacks.next(LONG).unwrap_err().to_string();
    let expected = "thread `loader-2` could not make its loader: no such device (it was in state `starting`)";
    assert!(failure.contains(expected), "{failure}");
    stacks.join().unwrap();
}

/// A source that does as its script says, and ends with it.
struct Scripted(<Script as IntoIterator>::IntoIter);

impl Source for Scripted {
    type Item = Numbered;

    fn next(&mut self, _: Duration) -> Result<Numbered, NextError> {
        self.0.next().unwrap_or(|| Err(NextError::Closed))()
    }

    fn backlog(&self) -> usize {
        0
    }

    fn drain(&mut self) -> Vec<Numbered> {
        Vec::new()
    }
}

type Script = Vec<fn() -> Result<Numbered, NextError>>;

fn scripted(n_loaders: usize, script: Script) -> (LoaderStacks<Scripted, Place>, ShutdownGuard) {
    let (shutdown, token) = shutdown();
    let source = Scripted(script.into_iter());
    let parts = LoaderParts { source, stacks: places(2), time: TimeLedger::new(), token };
    let stacks = LoaderStacks::start(config(n_loaders), parts, |_| Ok(Put(at_once))).unwrap();
    (stacks, shutdown)
}

#[test]
fn what_the_source_fails_with_comes_in_its_place_and_the_loaders_go_on() {
    let (mut stacks, _guard) = scripted(
        1,
        vec![
            || Ok(1.into()),
            || Err(NextError::Failed("a fragment of another shape".into())),
            || Err(NextError::TimedOut),
            || Ok(2.into()),
        ],
    );
    assert_eq!(stacks.next(LONG).unwrap().number, 1);
    let failure = stacks.next(LONG).unwrap_err().to_string();
    assert!(failure.contains("a fragment of another shape"), "{failure}");
    assert_eq!(stacks.next(LONG).unwrap().number, 2);
    assert!(matches!(stacks.next(LONG), Err(NextError::Closed)));
    stacks.join().unwrap();
}

#[test]
fn what_the_source_fails_with_is_not_lost_to_a_checkpoint() {
    let (mut stacks, _guard) =
        scripted(1, vec![|| Ok(1.into()), || Err(NextError::Failed("a fragment of another shape".into()))]);
    until(|| stacks.ready.len() == 2);
    let mut saved = SavedSource::new(1, crate::Pool::new(0));
    assert!(stacks.save(&mut saved, &mut |_| {}).unwrap_err().to_string().contains("another shape"));
    assert_eq!(stacks.next(LONG).unwrap().number, 1);
    assert!(matches!(stacks.next(LONG), Err(NextError::Failed(_))));
}

#[test]
fn a_source_that_panics_is_a_failure_of_the_thread_that_asked() {
    for n_loaders in [1, 3] {
        let (mut stacks, _guard) = scripted(n_loaders, vec![|| std::panic::resume_unwind(Box::new("the source"))]);
        let failure = stacks.next(LONG).unwrap_err().to_string();
        assert!(failure.contains("panicked: the source (it was in state `waiting_for_data`)"), "{failure}");
        assert!(stacks.drain().is_empty());
        stacks.join().unwrap();
    }
}

#[test]
fn closing_the_source_ends_the_threads_after_what_is_ready_was_given() {
    let (bench, mut stacks) = set_up(3, 3, 4, at_once);
    for n in 0..3 {
        bench.sender.push(n.into()).unwrap();
    }
    drop(bench.sender);
    let metrics = stacks.metrics().clone();
    let numbers: BTreeSet<u64> = (0..3).map(|_| stacks.next(LONG).unwrap().number).collect();
    assert_eq!(numbers, BTreeSet::from([0, 1, 2]));
    assert!(matches!(stacks.next(LONG), Err(NextError::Closed)));
    until(|| metrics.running().is_empty());
}

#[test]
fn dropping_it_ends_the_threads_though_the_run_goes_on_and_stacks_are_out() {
    for _ in 0..10 {
        let (bench, mut stacks) = set_up(2, 3, 8, at_once);
        for n in 0..6 {
            bench.sender.push(n.into()).unwrap();
        }
        let metrics = stacks.metrics().clone();
        let held = stacks.next(LONG).unwrap();
        drop(stacks);
        assert!(metrics.running().is_empty());
        assert!(bench.sender.push(9.into()).is_err(), "the source is gone");
        assert!(held.number < 6, "a stack may outlive the adapter");
        drop(bench.shutdown);
    }
}

#[test]
fn drain_gives_what_is_loaded_once_and_tickets_count_the_rest() {
    let ledger = StepLedger::new();
    let (bench, mut stacks) = set_up(2, 2, 8, at_once);
    for n in 0..6 {
        bench.sender.push(ticketed(&ledger, n)).unwrap();
    }
    until(|| stacks.ready.len() == 2);
    drop(bench.shutdown);
    assert!(matches!(stacks.next(LONG), Err(NextError::Closed)));
    ledger.shut_down();
    let loaded = stacks.drain();
    let numbers: BTreeSet<u64> = loaded.iter().map(|place| place.number).collect();
    assert_eq!(numbers, BTreeSet::from([0, 1]));
    assert_eq!(ledger.snapshot().in_flight.env, 2, "only what was given is still on its way");
    assert!(stacks.drain().is_empty());
    drop((loaded, stacks));
    let totals = ledger.snapshot();
    assert!(totals.is_closed());
    assert_eq!((totals.in_flight.env, totals.dropped["shutdown"].env), (0, 6));
}

#[test]
fn a_ticket_left_in_its_stack_is_settled_by_the_next_load_or_at_the_end() {
    let ledger = StepLedger::new();
    let (bench, mut stacks) = set_up(1, 1, 2, at_once);
    bench.sender.push(ticketed(&ledger, 1)).unwrap();
    drop(stacks.next(LONG).unwrap());
    bench.sender.push(ticketed(&ledger, 2)).unwrap();
    let second = stacks.next(LONG).unwrap();
    assert_eq!(ledger.snapshot().dropped["discarded"].env, 1);
    drop((second, stacks));
    assert_eq!(ledger.snapshot().dropped["discarded"].env, 2);
    assert!(ledger.snapshot().is_closed());
}

#[test]
fn a_thread_that_misses_the_deadline_is_named() {
    let (go_on, waits) = crossbeam_channel::bounded::<()>(0);
    let (loading, is_loading) = mpsc::sync_channel(2);
    let (shutdown, token) = shutdown();
    let (sender, source) = inqueue(2, Gate::Bounded, &token).unwrap();
    let parts = LoaderParts { source, stacks: places(2), time: TimeLedger::new(), token };
    let config = LoaderConfig { join_within: Duration::from_millis(20), ..config(2) };
    let stacks = LoaderStacks::start(config, parts, move |number| {
        let (waits, loading) = (waits.clone(), loading.clone());
        Ok(Put(move |_| {
            loading.send(number)?;
            Ok(waits.recv()?)
        }))
    })
    .unwrap();
    sender.push(Numbered::from(1)).unwrap();
    let stuck = is_loading.recv_timeout(LONG).unwrap();
    let metrics = stacks.metrics().clone();
    drop(shutdown);
    until(|| metrics.running().len() == 1);
    match stacks.join().unwrap_err() {
        LoaderError::NotJoined { threads, waited } => {
            assert_eq!((threads, waited), (vec![format!("loader-{stuck}")], config.join_within));
        }
        other => panic!("{other}"),
    }
    assert_eq!(metrics.running(), [format!("loader-{stuck}")]);
    go_on.send(()).unwrap();
    until(|| metrics.running().is_empty());
}
