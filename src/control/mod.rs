//! The few writes to a ThreadX trace: which events are inserted, whether any are, and a mark.
//!
//! [`State::read`] reads the state, [`plan`] makes the writes, [`check`] has every rule for their addresses, and [`apply`]
//! writes them and reads them back. A trace that is not sound is never written to.

mod change;
mod check;
mod classes;
mod clock;
mod mark;
mod owners;
mod plan;
mod report;
mod state;

pub use change::{Change, Destination, Failed, apply};
pub use check::{Checked, check, check_call};
pub use classes::{FIRST_USER_ID, bits_of};
pub use plan::{Action, Plan, plan};
pub use report::written;
pub use state::{State, Variable};
