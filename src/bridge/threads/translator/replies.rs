//! The stub's answers, as the debugger gets them.

use super::{Answered, Look, Translator, console};
use crate::bridge::threads::stop_reply::StopReply;
use crate::debugger::ListedThread;
use crate::rsp::thread_id;

impl Translator {
    /// The stub's answer, as the debugger gets it.
    pub fn reply(&mut self, to: Answered, body: &[u8], look: &mut dyn Look) -> Vec<Vec<u8>> {
        if !self.is_on() {
            return vec![body.to_vec()];
        }
        match to {
            Answered::Features => vec![self.features(body, look)],
            Answered::Actions => {
                let text = String::from_utf8_lossy(body);
                self.actions = text.strip_prefix("vCont;").map(|all| all.split(';').map(str::to_owned).collect());
                vec![body.to_vec()]
            }
            Answered::Stop => self.stop(body, look),
        }
    }

    /// The list of threads is there to be read, also where the stub has none.
    fn features(&mut self, body: &[u8], look: &mut dyn Look) -> Vec<u8> {
        let text = String::from_utf8_lossy(body);
        let is_error = body.is_empty() || body.first() == Some(&b'E');
        if is_error || !self.started(look) || text.split(';').any(|feature| feature == "qXfer:threads:read+") {
            return body.to_vec();
        }
        let others: Vec<&str> = text.split(';').filter(|feature| !feature.starts_with("qXfer:threads:read")).collect();
        format!("{};qXfer:threads:read+", others.join(";")).into_bytes()
    }

    fn stop(&mut self, body: &[u8], look: &mut dyn Look) -> Vec<Vec<u8>> {
        let text = std::str::from_utf8(body).unwrap_or_default();
        let Some(reply) = StopReply::parse(text) else { return vec![body.to_vec()] };
        if !self.started(look) || !self.knows(reply.thread, look) {
            return self.with_notes(body.to_vec());
        }
        let cpu = reply.thread.and_then(|id| self.cpus().iter().position(|cpu| cpu == id)).unwrap_or(0);
        if let Some(process) = reply.thread.map(thread_id::process).filter(|process| !process.is_empty()) {
            process.clone_into(&mut self.process);
        }
        let stopped = look.stopped(cpu);
        let at_breakpoint =
            stopped.pc.is_some_and(|pc| self.breakpoints.contains(&(pc & !1)) || self.breakpoints.contains(&pc));
        let stepped = self.stepped.take().filter(|id| *id != stopped.id && reply.is_step() && !at_breakpoint);
        // The step let the kernel switch: the thread that was stepped is where it was left.
        let has_frame = |thread: &ListedThread| thread.registers().is_some_and(|registers| registers.pc().is_some());
        let is_left = |thread: &ListedThread| thread.cpu.is_none() && has_frame(thread);
        let left = stepped.filter(|id| self.listing(look).threads.thread(*id).is_some_and(is_left));
        let reported = left.map_or((stopped.id, Some(cpu)), |id| (id, None));
        (self.reported, self.selected) = (Some(reported), None);
        let remark = look.remark();
        if self.said != remark {
            self.said.clone_from(&remark);
            remark.into_iter().for_each(|remark| self.note(remark));
        }
        self.with_notes(reply.with_thread(&format!("{}{:x}", self.process, reported.0)).into_bytes())
    }

    /// False where the stub names a thread that is none of its CPUs, and shows threads of its own by now.
    fn knows(&mut self, thread: Option<&str>, look: &mut dyn Look) -> bool {
        let Some(id) = thread.filter(|id| thread_id::plain(id).is_some()) else { return true };
        if !self.forced && !self.cpus().iter().any(|cpu| cpu == id) {
            self.begin(look);
        }
        self.is_on()
    }

    /// A stop with the lines in front of it that a debugger takes while the target runs.
    fn with_notes(&mut self, stop: Vec<u8>) -> Vec<Vec<u8>> {
        // No console text goes in front of the answer to `?`, the first of a session.
        let notes = if std::mem::take(&mut self.ran) { std::mem::take(&mut self.notes) } else { Vec::new() };
        notes.iter().map(|line| console(line)).chain([stop]).collect()
    }
}
