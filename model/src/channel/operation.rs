use super::world::Ticket;

/// What a selection can choose: receiving from the one end, or sending to the other.
pub(super) trait Operation {
    /// Does it, as far as it goes without the message to send, if it would not wait.
    fn try_claim(&self, ticket: Ticket) -> bool;

    /// Whether it would not wait.
    fn is_ready(&self) -> bool;

    /// Whether it becomes ready without another thread.
    fn comes_by_itself(&self) -> bool;
}
