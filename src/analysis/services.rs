//! `services`.

use super::{Tracker, Visitor, Whole};
use crate::report::Report;

/// In the making.
#[derive(Debug, Default)]
pub struct Services {}

impl Visitor for Services {
    fn finish(&mut self, _: &Whole, _: &Tracker<'_>) -> Vec<Report> {
        Vec::new()
    }
}
