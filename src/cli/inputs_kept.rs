//! A file that is read is never written: it may be all that is left of a crash.

use std::path::{Path, PathBuf};

use crate::code::Code;
use crate::error::Error;
use crate::session::{Inputs, SourceSpec, TraceInput};
use crate::sys;

/// Fails where `output` is one of the files that are `read`.
pub fn check(read: &[PathBuf], output: &Path) -> Result<(), Error> {
    let Some(input) = read.iter().find(|input| sys::is_same_file(input, output)) else { return Ok(()) };
    let (output, input) = (output.display(), input.display());
    Err(Error::usage(Code::Usage, format!("-o {output}: this is {input}, which is an input; give another name")))
}

/// Every file that is read.
pub fn files(inputs: &Inputs) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = inputs.elf.iter().chain(&inputs.elf_default).chain(&inputs.events).cloned().collect();
    match &inputs.source {
        SourceSpec::Core(path) => files.push(path.clone()),
        SourceSpec::Images(images) => files.extend(images.iter().map(|i| i.path.clone())),
        SourceSpec::Traces(traces) => files.extend(traces.iter().filter_map(|t| match t {
            TraceInput::File(path) => Some(path.clone()),
            TraceInput::Stdin => None,
        })),
        SourceSpec::Remote(_) | SourceSpec::Files => {}
    }
    for file in &inputs.files {
        // Bare FILE@ADDR.
        let bare = file.to_str().and_then(|f| f.rsplit_once('@')).map(|(path, _)| PathBuf::from(path));
        files.extend(bare);
        files.push(file.clone());
    }
    files
}
