//! Ctrl-C ends a run cleanly: the signal becomes a report in a mailbox that the trainer listens to.

use std::io;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use pronk_buffer::{Bell, Fold, Mailbox, MailboxSender, mailbox};

/// Somebody pressed Ctrl-C.
pub(crate) struct Interrupt;

impl Fold for Interrupt {
    fn fold(&mut self, _later: Self) {}
}

/// A run of this process that wants to hear of Ctrl-C, and whether it was told already.
struct Listener {
    id: u64,
    sender: MailboxSender<Interrupt>,
    told: bool,
}

/// What a run hears of Ctrl-C; it stops listening when this is dropped.
pub(crate) struct Interrupts {
    id: u64,
    mailbox: Mailbox<Interrupt>,
}

impl Interrupts {
    /// Whether somebody pressed Ctrl-C.
    pub(crate) fn any(&self) -> bool {
        !self.mailbox.is_empty()
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        listeners().retain(|listener| listener.id != self.id);
    }
}

static LISTENERS: Mutex<Vec<Listener>> = Mutex::new(Vec::new());

fn listeners() -> MutexGuard<'static, Vec<Listener>> {
    LISTENERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registers a run: it is told of the first Ctrl-C from now on, and `bell` rings.
///
/// A second Ctrl-C, or one while no run listens, ends the process with status 130 as it would without pronk: once a
/// process has a handler, the system's own is gone, so somebody has to do this.
///
/// # Errors
/// When the system refuses the handler or its thread; a run can go on without.
pub(crate) fn on_ctrl_c(bell: &Bell) -> io::Result<Interrupts> {
    static NEXT_ID: AtomicU64 = AtomicU64::new(0);
    static HANDLER: OnceLock<Result<(), String>> = OnceLock::new();
    let installed = HANDLER.get_or_init(|| install().map_err(|error| error.to_string()));
    if let Err(reason) = installed {
        return Err(io::Error::other(format!("no Ctrl-C handler: {reason}")));
    }
    let (sender, mailbox) = mailbox(NonZeroUsize::MIN, bell);
    let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    listeners().push(Listener { id, sender, told: false });
    Ok(Interrupts { id, mailbox })
}

fn install() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    std::thread::Builder::new().name("pronk-signals".to_owned()).spawn(move || {
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
