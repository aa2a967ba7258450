//! A target that runs on: reading what is new in it, and connecting again.

use super::target::Source;
use super::{Loaded, Target, open};
use crate::catalogue::{Catalogue, Names};
use crate::code::Code;
use crate::error::Error;
use crate::format::{Batch, DecodeOptions, Extent, Follow};
use crate::mem::segments::Segments;
use crate::sym::ElfSymbols;
use crate::trace::{Issue, Trace};

impl Target<'_> {
    /// Forgets what was read, and where the trace is: the target has run.
    pub fn forget(&mut self) {
        self.memory.memory().refresh();
        if let Source::Stub(cache) = &mut self.memory {
            cache.forget();
        }
        self.place = None;
    }

    /// Connects to the live target again; what is known of the program stays.
    ///
    /// # Errors
    /// [`Error`] where it cannot be reached.
    pub fn reconnect(&mut self) -> Result<(), Error> {
        let Some(link) = self.link.clone() else {
            return Err(Error::failed(Code::Usage, "this source is not a live target", ""));
        };
        // Most stubs serve one client at a time: the old link goes first.
        self.memory = Source::Files(Box::new(Segments::default()));
        self.place = None;
        self.memory = open::connect(&link)?;
        Ok(())
    }

    /// True where memory is read while the target runs.
    pub fn is_running(&mut self) -> bool {
        self.memory.memory().changes()
    }

    /// The note on a target that was read while it ran.
    pub fn read_while_running(&mut self) -> Option<Issue> {
        self.is_running().then(|| {
            Issue::new(
                Code::ReadWhileRunning,
                "the target ran while it was read: what was read at different moments may not match",
            )
        })
    }

    /// Reads as [`Target::load`] does, and gives the place from which to follow; `None` for a format that cannot be
    /// followed.
    ///
    /// # Errors
    /// As [`Target::load`].
    pub fn begin(
        &mut self,
        extent: Extent,
        names: Names,
        options: &DecodeOptions,
    ) -> Result<(Loaded, Option<Box<dyn Follow>>), Error> {
        self.forget();
        let capture = self.capture(extent)?.1;
        let loaded = self.decoded(capture.as_ref(), names, options)?;
        Ok((loaded, capture.follow()))
    }

    /// Reads what was inserted after a place; nothing of it is kept.
    ///
    /// # Errors
    /// As [`Follow::read`].
    pub fn read_new(&mut self, from: &dyn Follow, names: bool) -> Result<Batch, Error> {
        // After a lost link the trace may be another one.
        self.locate()?;
        from.read(self.memory.fresh(), names)
    }

    /// Decodes what [`Target::read_new`] read, with a catalogue that grows where the application's ELF names more.
    ///
    /// # Errors
    /// [`Error`] where it is no trace.
    pub fn decode(
        &mut self,
        batch: &Batch,
        catalogue: &mut Catalogue,
        options: &DecodeOptions,
    ) -> Result<Trace, Error> {
        let mut trace = batch.capture.decode(catalogue, options)?;
        if self.info.events.add_of_elf(self.info.program.as_ref().map(ElfSymbols::elf), &trace, catalogue)? {
            trace = batch.capture.decode(catalogue, options)?;
        }
        trace.interrupts = catalogue.interrupts(self.is_m_profile());
        Ok(trace)
    }
}
