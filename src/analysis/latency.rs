//! `latency`.

use super::{Tracker, Visitor, Whole, Wish};
use crate::catalogue::Catalogue;
use crate::query::QueryError;
use crate::report::Report;
use crate::trace::Trace;

/// In the making.
#[derive(Debug, Default)]
pub struct Latency {}

impl Latency {
    /// What is wanted, held against the catalogue.
    ///
    /// # Errors
    /// Where an event or a field does not exist.
    pub fn new(_: &Trace, _: &Catalogue, _: &Wish) -> Result<Self, QueryError> {
        Ok(Self {})
    }
}

impl Visitor for Latency {
    fn finish(&mut self, _: &Whole, _: &Tracker<'_>) -> Vec<Report> {
        Vec::new()
    }
}
