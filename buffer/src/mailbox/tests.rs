use std::thread;

use super::*;

const LONG: Duration = Duration::from_secs(60);

/// Counts add, the newest value wins.
#[derive(Clone, Debug, PartialEq)]
struct Report {
    count: u64,
    newest: u64,
}

impl Fold for Report {
    fn fold(&mut self, later: Self) {
        self.count += later.count;
        self.newest = later.newest;
    }
}

fn report(newest: u64) -> Report {
    Report { count: 1, newest }
}

fn boxed(capacity: usize) -> (MailboxSender<Report>, Mailbox<Report>) {
    mailbox(NonZeroUsize::new(capacity).unwrap(), &Notifier::new())
}

#[test]
fn a_sender_of_the_mailbox_posts_to_it_and_keeps_it_open() {
    let (sender, reports) = mailbox(NonZeroUsize::MIN, &Notifier::new());
    let another = reports.sender();
    drop(sender);
    assert!(!reports.is_closed());
    another.post(report(3)).unwrap();
    drop(another);
    assert!(reports.is_closed());
    assert_eq!(reports.drain(), [report(3)]);
}

#[test]
fn reports_come_out_in_the_order_posted() {
    let (sender, mailbox) = boxed(3);
    (1..=3).for_each(|n| sender.post(report(n)).unwrap());
    assert_eq!(mailbox.len(), 3);
    assert_eq!(mailbox.try_take(), Some(report(1)));
    assert_eq!(mailbox.take(Duration::ZERO), Ok(report(2)));
    assert_eq!(mailbox.drain(), [report(3)]);
    assert!(mailbox.is_empty());
    assert_eq!(mailbox.try_take(), None);
    assert_eq!(mailbox.take(Duration::ZERO), Err(PopError::TimedOut));
}

#[test]
fn a_full_mailbox_folds_into_its_newest_report_and_stays_bounded() {
    let (sender, mailbox) = boxed(2);
    (1..=100).for_each(|n| sender.post(report(n)).unwrap());
    assert_eq!(mailbox.drain(), [report(1), Report { count: 99, newest: 100 }]);
}

#[test]
fn post_returns_the_report_when_the_reader_is_gone() {
    let (sender, mailbox) = boxed(1);
    sender.post(report(1)).unwrap();
    drop(mailbox);
    assert_eq!(sender.post(report(2)), Err(Closed(report(2))));
}

#[test]
fn what_was_posted_is_given_before_closed() {
    let (sender, mailbox) = boxed(2);
    sender.clone().post(report(1)).unwrap();
    assert!(!mailbox.is_closed());
    drop(sender);
    assert!(mailbox.is_closed());
    assert_eq!(mailbox.take(LONG), Ok(report(1)));
    assert_eq!(mailbox.take(LONG), Err(PopError::Closed));
}

#[test]
fn dropping_the_last_sender_wakes_the_reader() {
    let (sender, mailbox) = boxed(1);
    let reader = thread::spawn(move || mailbox.take(LONG));
    drop(sender);
    assert_eq!(reader.join().unwrap(), Err(PopError::Closed));
}

#[test]
fn totals_are_exact_under_many_threads_and_a_slow_reader() {
    const SENDERS: u64 = 8;
    const POSTS: u64 = if cfg!(miri) { 50 } else { 2_000 };
    let (sender, mailbox) = boxed(4);
    let threads: Vec<_> = (0..SENDERS)
        .map(|_| {
            let sender = sender.clone();
            thread::spawn(move || (0..POSTS).for_each(|n| sender.post(report(n)).unwrap()))
        })
        .collect();
    drop(sender);
    let mut count = 0;
    loop {
        match mailbox.take(LONG) {
            Ok(report) => count += report.count,
            Err(error) => {
                assert_eq!(error, PopError::Closed);
                break;
            }
        }
        thread::yield_now();
    }
    assert_eq!(count, SENDERS * POSTS);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn one_notifier_wakes_the_reader_of_several_mailboxes_for_every_report() {
    const POSTS: u64 = if cfg!(miri) { 50 } else { 2_000 };
    let notifier = Notifier::new();
    let (senders, mailboxes): (Vec<_>, Vec<_>) =
        (0..3).map(|_| mailbox::<Report>(NonZeroUsize::MIN, &notifier)).unzip();
    let threads: Vec<_> = senders
        .into_iter()
        .map(|sender| thread::spawn(move || (0..POSTS).for_each(|n| sender.post(report(n)).unwrap())))
        .collect();
    let mut count = 0;
    // A lost wake-up would show as a wait that times out.
    loop {
        let all_closed = mailboxes.iter().all(Mailbox::is_closed);
        count += mailboxes.iter().flat_map(Mailbox::drain).map(|report| report.count).sum::<u64>();
        if all_closed {
            break;
        }
        assert!(notifier.wait(LONG), "with {count} reports read");
    }
    assert_eq!(count, 3 * POSTS);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn two_readers_on_one_notifier_do_not_take_each_others_notifications() {
    const POSTS: u64 = 500;
    let notifier = Notifier::new();
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (sender, mailbox) = mailbox(NonZeroUsize::new(2).unwrap(), &notifier);
            let poster = thread::spawn(move || (0..POSTS).for_each(|n| sender.post(report(n)).unwrap()));
            let reader = thread::spawn(move || {
                let mut count = 0;
                while let Ok(report) = mailbox.take(LONG) {
                    count += report.count;
                }
                count
            });
            (poster, reader)
        })
        .collect();
    for (poster, reader) in readers {
        poster.join().unwrap();
        assert_eq!(reader.join().unwrap(), POSTS);
    }
}

#[tokio::test(flavor = "current_thread")]
async fn awaiting_gives_every_report_and_then_none() {
    const POSTS: u64 = if cfg!(miri) { 50 } else { 2_000 };
    let (sender, mailbox) = boxed(2);
    let poster = thread::spawn(move || (0..POSTS).for_each(|n| sender.post(report(n)).unwrap()));
    let mut count = 0;
    while let Some(report) = mailbox.recv().await {
        count += report.count;
    }
    assert_eq!(count, POSTS);
    assert_eq!(mailbox.recv().await, None, "for ever");
    poster.join().unwrap();
}

#[tokio::test(flavor = "current_thread")]
async fn a_receive_dropped_half_way_loses_no_report() {
    let (sender, mailbox) = boxed(1);
    let half_way = tokio::time::timeout(Duration::from_millis(1), mailbox.recv()).await;
    assert!(half_way.is_err());
    sender.post(report(1)).unwrap();
    assert_eq!(mailbox.recv().await, Some(report(1)));
}
