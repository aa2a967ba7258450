//! The numbers that the vendor's viewer gives, by its own definitions.

use super::Name;
use crate::catalogue::Catalogue;
use crate::query::{Query, QueryError};
use crate::report::Report;
use crate::trace::Trace;

/// Makes the reports.
///
/// # Errors
/// Where the trace is not of a system that the viewer reads.
pub fn reports(_: &Trace, _: &Catalogue, _: &Query<'_>, _: &[Name]) -> Result<Vec<Report>, QueryError> {
    Ok(Vec::new())
}
