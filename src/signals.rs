//! Ctrl-C ends a run cleanly: the signal becomes a report in a mailbox that the trainer listens to.

use std::io;
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use pronk_buffer::{Bell, Fold, Mailbox, MailboxSender, mailbox};

/// Somebody pressed Ctrl-C.
pub(crate) struct Interrupt;

impl Fold for Interrupt {
    fn fold(&mut self, _later: Self) {}
}

/// The runs of this process that want to hear of Ctrl-C, and whether they were told already.
struct Listener {
    sender: MailboxSender<Interrupt>,
    told: bool,
}

static LISTENERS: Mutex<Vec<Listener>> = Mutex::new(Vec::new());

fn listeners() -> MutexGuard<'static, Vec<Listener>> {
    LISTENERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registers a run: its mailbox gets one [`Interrupt`] at the first Ctrl-C from now on, and `bell` rings.
///
/// A second Ctrl-C, or one while no run listens, ends the process with status 130 as it would without pronk: once a
/// process has a handler, the system's own is gone, so somebody has to do this.
///
/// # Errors
/// When the system refuses the handler or its thread; a run can go on without.
pub(crate) fn on_ctrl_c(bell: &Bell) -> io::Result<Mailbox<Interrupt>> {
    static HANDLER: OnceLock<Result<(), String>> = OnceLock::new();
    let installed = HANDLER.get_or_init(|| install().map_err(|error| error.to_string()));
    if let Err(reason) = installed {
        return Err(io::Error::other(format!("no Ctrl-C handler: {reason}")));
    }
    let (sender, interrupts) = mailbox(NonZeroUsize::MIN, bell);
    listeners().push(Listener { sender, told: false });
    Ok(interrupts)
}

fn install() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    std::thread::Builder::new()
        .name("pronk-signals".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                while tokio::signal::ctrl_c().await.is_ok() {
                    pass_on();
                }
            });
        })?;
    Ok(())
}

fn pass_on() {
    let mut listeners = listeners();
    let mut anybody_new = false;
    listeners.retain_mut(|listener| {
        let first_time = !std::mem::replace(&mut listener.told, true);
        let listens = listener.sender.post(Interrupt).is_ok();
        anybody_new |= listens && first_time;
        listens
    });
    if !anybody_new {
        #[allow(clippy::disallowed_methods)] // nobody is left to end the process in another way
        std::process::exit(130);
    }
}
