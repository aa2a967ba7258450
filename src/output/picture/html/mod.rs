//! A timeline as one HTML page that holds its data and its program, and loads nothing.
//!
//! Events, slices, flows and levels come as blocks of so many events: columns of numbers of seven bits a byte, each as the
//! difference to the one before, deflated, in base64 (`pack`, `block`). What is known only at the end (names, texts,
//! findings, reports) is one JSON text after them (`head`). `page/store.js` reads both. A block is written as soon as it
//! is full, so memory does not grow with the events.

mod block;
mod fields;
mod head;
mod pack;
mod page;
mod tables;

use std::collections::HashMap;
use std::io::{self, BufWriter, Write};

use block::{Block, Piece};
use fields::Fields;
use head::Names;
pub use tables::{Document, Tables};

use super::words::Words;
use crate::explain::Finding;
use crate::output::row::Rows;
use crate::output::{View, buffered};
use crate::timeline::{FlowId, Gap, Instant, Level, Scene, Sink, Slice};

/// Events of a block.
const EVENTS: usize = 1 << 16;
/// Slices and levels of a block, where filters drop most events.
const PIECES: usize = 1 << 18;

/// The most gaps that are drawn.
const GAPS: usize = 1 << 14;

/// What a page says beside the timeline. All text is hostile, and is escaped here.
#[derive(Debug, Default)]
pub struct Page<'a> {
    /// What was opened: the title.
    pub title: String,
    /// Names and values: clock, kernel, build.
    pub facts: Vec<(&'static str, String)>,
    /// The first line of `explain`; `None` where its rules were not applied.
    pub headline: Option<String>,
    /// What `explain` found; `None` where its rules were not applied.
    pub findings: Option<&'a [Finding]>,
    /// What `explain` could not check.
    pub not_checked: &'a [String],
    /// Reports.
    pub documents: Vec<Document>,
}

/// Writes the page.
pub struct Html<'a, W: Write> {
    out: BufWriter<W>,
    view: View<'a>,
    words: Words<'a>,
    page: Page<'a>,
    rows: Rows,
    fields: Fields,
    names_of: Names,
    gaps: Vec<(u64, Gap)>,
    /// Gaps for which there was no room.
    more_gaps: u64,
    block: Block,
    /// Flows that have begun, and end with a slice that is to come.
    begun: HashMap<FlowId, u64>,
}

impl<'a, W: Write> Html<'a, W> {
    /// A page that is written to `out`.
    pub fn new(out: W, view: View<'a>, page: Page<'a>) -> Self {
        Self {
            out: buffered(out),
            view,
            words: Words::new(view),
            page,
            rows: Rows::new(),
            fields: Fields::default(),
            names_of: Names::default(),
            gaps: Vec::new(),
            more_gaps: 0,
            block: Block::default(),
            begun: HashMap::new(),
        }
    }

    fn write_block(&mut self, is_last: bool) -> io::Result<()> {
        self.fields.forget();
        match self.block.take(is_last) {
            Some(bytes) => page::block(&mut self.out, &bytes),
            None => Ok(()),
        }
    }
}

/// The number of a counter's track: after all others.
fn track_of(scene: &Scene<'_>, level: &Level) -> u64 {
    let tracks = scene.tracks.len() as u64;
    tracks.saturating_add(u64::from(level.counter.0))
}

impl<W: Write> Sink for Html<'_, W> {
    fn begin(&mut self, scene: &Scene<'_>) -> io::Result<()> {
        self.block.begin(scene.window.0);
        page::start(&mut self.out)
    }

    fn slice(&mut self, scene: &Scene<'_>, slice: &Slice) -> io::Result<()> {
        let piece = Piece {
            from: slice.from,
            to: slice.to,
            state: self.names_of.state(&self.words, scene, slice),
            flags: head::flags(scene, slice),
            object: self.names_of.object(&self.words, slice),
            owner: head::owner(slice),
        };
        self.block.slice(u64::from(slice.track.0), piece);
        if let Some(from) = slice.flow.and_then(|flow| self.begun.remove(&flow)) {
            self.block.flow(from, u64::from(slice.track.0));
        } else if let Some(flow) = slice.flow {
            self.block.wait_for(flow, u64::from(slice.track.0));
        }
        if self.block.pieces() >= PIECES { self.write_block(false) } else { Ok(()) }
    }

    fn instant(&mut self, scene: &Scene<'_>, instant: &Instant<'_>) -> io::Result<()> {
        if self.block.len() >= EVENTS {
            self.write_block(false)?;
        }
        let index = self.block.next_index();
        for flow in instant.flows {
            match self.block.waited_for(*flow) {
                Some(track) => self.block.flow(index, track),
                None => drop(self.begun.insert(*flow, index)),
            }
        }
        self.fields.take(&mut self.rows, &self.view, instant.event);
        self.block.event(instant, &mut self.fields, scene.trace.about.cores > 1);
        Ok(())
    }

    fn level(&mut self, scene: &Scene<'_>, level: &Level) -> io::Result<()> {
        self.block.level(track_of(scene, level), level.ticks, level.value);
        if self.block.pieces() >= PIECES { self.write_block(false) } else { Ok(()) }
    }

    fn gap(&mut self, _: &Scene<'_>, gap: &Gap) -> io::Result<()> {
        if self.gaps.len() < GAPS {
            self.gaps.push((self.block.next_index(), *gap));
        } else {
            self.more_gaps = self.more_gaps.saturating_add(1);
        }
        Ok(())
    }

    fn finish(&mut self, scene: &Scene<'_>) -> io::Result<()> {
        self.write_block(true)?;
        self.fields.finish();
        let head = head::Head {
            scene,
            words: &self.words,
            names: &self.names_of,
            fields: &self.fields,
            gaps: &self.gaps,
            more_gaps: self.more_gaps,
            page: &self.page,
            block: &self.block,
        };
        page::end(&mut self.out, &head.json()?)?;
        self.out.flush()
    }
}
