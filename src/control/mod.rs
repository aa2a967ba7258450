//! The few writes to a ThreadX trace: which events are inserted, whether any are, and a mark.
//!
//! [`State::read`] looks, [`plan`] says what would be written and why not, [`apply`] writes it and reads it back. What is
//! not sound is never written to.

mod change;
mod mark;
mod plan;
mod state;
mod symbols;

pub use change::{Change, apply};
pub use plan::{Action, Plan, plan};
pub use state::{Header, State, Variable};
pub use symbols::bits_of;
