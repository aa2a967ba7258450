//! The codes of issues and errors: stable names, listed in `docs/issues.md`.

/// How much an issue matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Something shown was inferred, not read.
    Inferred,
    /// Something is missing from what is shown.
    Lost,
}

impl Severity {
    /// Its name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Inferred => "inferred",
            Self::Lost => "lost",
        }
    }
}

/// What a code can be: an issue of some severity, or an error with an exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// An issue: [`Severity::Note`].
    Note,
    /// An issue: [`Severity::Inferred`].
    Inferred,
    /// An issue: [`Severity::Lost`].
    Lost,
    /// An error: what was asked for was not found. Exit code 1.
    NotFound,
    /// An error: exit code 2.
    Failed,
    /// No error for the caller: exit code 0.
    Silent,
}

impl Kind {
    /// What `docs/issues.md` calls it: the severity or the exit code.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Note => Severity::Note.name(),
            Self::Inferred => Severity::Inferred.name(),
            Self::Lost => Severity::Lost.name(),
            Self::NotFound => "1",
            Self::Failed => "2",
            Self::Silent => "0",
        }
    }

    /// The severity of an issue; `None` for an error.
    const fn severity(self) -> Option<Severity> {
        match self {
            Self::Note => Some(Severity::Note),
            Self::Inferred => Some(Severity::Inferred),
            Self::Lost => Some(Severity::Lost),
            Self::NotFound | Self::Failed | Self::Silent => None,
        }
    }
}

/// Declares [`Code`]: by section of `docs/issues.md`, each with its name and what it can be, the usual kind first.
macro_rules! codes {
    ($($section:literal { $($variant:ident $name:literal: $($kind:ident),+;)+ })+) => {
        /// What went wrong. The names are stable, and documented in `docs/issues.md`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code {
            $($(
                #[doc = concat!("`", $name, "`")]
                $variant,
            )+)+
        }

        impl Code {
            /// All of them, in the order of `docs/issues.md`.
            pub const ALL: &'static [Self] = &[$($(Self::$variant,)+)+];

            /// Its stable name.
            pub const fn name(self) -> &'static str {
                match self {
                    $($(Self::$variant => $name,)+)+
                }
            }

            /// What it can be, the usual one first.
            pub const fn kinds(self) -> &'static [Kind] {
                match self {
                    $($(Self::$variant => &[$(Kind::$kind),+],)+)+
                }
            }

            /// The anchor of its section in `docs/issues.md`.
            pub const fn anchor(self) -> &'static str {
                match self {
                    $($(Self::$variant)|+ => $section,)+
                }
            }
        }
    };
}

codes! {
    "what-was-typed" {
        Usage "usage": Failed;
        OptionFile "option-file": Failed;
        BadEndpoint "bad-endpoint": Failed;
        Number "number": Failed;
        Symbol "symbol": Failed;
        Position "position": Failed;
        Filter "filter": Failed;
        Clock "clock": Failed;
        Netx "netx": Failed;
        FormatIn "format-in": Failed;
        EventsFile "events-file": Failed, Inferred, Note;
        NoSuchEnum "no-such-enum": Failed;
        NoUserEvents "no-user-events": NotFound;
        SeveralEventEnums "several-event-enums": Inferred;
        NothingMatches "nothing-matches": NotFound;
        NoSuchSymbol "no-such-symbol": Failed;
        Listen "listen": Failed;
        Monitor "monitor": Failed;
    }
    "files" {
        NoSource "no-source": Failed;
        File "file": Failed;
        Packed "packed": Failed;
        Gzip "gzip": Failed;
        GzipCut "gzip-cut": Lost;
        GzipDamaged "gzip-damaged": Lost;
        GzipTooLarge "gzip-too-large": Lost;
        GzipTrailing "gzip-trailing": Note;
        NotElf "not-elf": Failed;
        NotACore "not-a-core": Failed;
        CoreMismatch "core-mismatch": Failed;
        ElfTruncated "elf-truncated": Note;
        CoreTruncated "core-truncated": Note;
        Core "core": Note;
        ElfMismatch "elf-mismatch": Inferred, Failed;
        LoadOffsetUnknown "load-offset-unknown": Inferred;
        Image "image": Failed;
        PlacedByHeader "placed-by-header": Inferred;
        DumpMoved "dump-moved": Note;
        DumpByteOrder "dump-byte-order": Inferred;
        DumpChecksum "dump-checksum": Lost;
        DumpDamaged "dump-damaged": Lost;
        DumpCut "dump-cut": Note, Lost;
        DumpAfterEnd "dump-after-end": Note;
        DumpOverlap "dump-overlap": Inferred;
        DumpBlank "dump-blank": Inferred;
        DumpEmpty "dump-empty": Failed;
        Unreadable "unreadable": Failed;
        SourceFailed "source-failed": Failed;
    }
    "the-stub" {
        ConnectRefused "connect-refused": Failed;
        ConnectTimeout "connect-timeout": Failed;
        HostUnknown "host-unknown": Failed;
        CannotOpen "cannot-open": Failed;
        NotRsp "not-rsp": Failed;
        NoAnswer "no-answer": Failed;
        Stalled "stalled": Failed;
        LinkClosed "link-closed": Failed;
        LinkFailed "link-failed": Failed;
        Chatter "chatter": Failed;
        EndlessPacket "endless-packet": Failed;
        Checksum "checksum": Failed;
        BadReply "bad-reply": Failed;
        NotAStub "not-a-stub": Failed;
        Unsupported "unsupported": Failed;
        ErrorReply "error-reply": Failed;
        NoTarget "no-target": Failed;
        TargetRuns "target-runs": Failed;
        HaltedTooLong "halted-too-long": Failed;
        WouldReset "would-reset": Failed;
        WouldResume "would-resume": Failed;
        TargetHalted "target-halted": Failed;
        Interrupted "interrupted": Failed;
        JustBegun "just-begun": Note;
    }
    "finding-the-trace" {
        NoTrace "no-trace": NotFound;
        NoTraceSymbol "no-trace-symbol": NotFound;
        TraceNotBuiltIn "trace-not-built-in": NotFound;
        NeverEnabled "never-enabled": NotFound;
        HeaderZero "header-zero": NotFound;
        NotAHeader "not-a-header": NotFound;
        HeaderDamaged "header-damaged": Failed;
        HeaderOutsideMemory "header-outside-memory": Failed;
        NotATrace "not-a-trace": NotFound, Failed;
        NoPreviousRun "no-previous-run": NotFound;
        DifferentRuns "different-runs": Failed, Lost;
        InPieces "in-pieces": Failed;
        LeftOver "left-over": Inferred;
        FoundBySearch "found-by-search": Inferred;
        SeveralTraces "several-traces": Note;
    }
    "writing-to-it" {
        NotInserting "not-inserting": NotFound;
        NotConfirmed "not-confirmed": NotFound, Failed;
        NotWritten "not-written": Failed;
        HalfWritten "half-written": Failed;
        TargetChanged "target-changed": Failed;
        WrongAddress "wrong-address": Failed;
        NotRam "not-ram": Failed;
    }
    "the-trace" {
        TraceDisabled "trace-disabled": Note;
        TracePaused "trace-paused": Note;
        ReadWhileRunning "read-while-running": Note;
        Torn "torn": Lost;
        Lapped "lapped": Lost;
        EventsLost "events-lost": Lost;
        TraceRestarted "trace-restarted": Lost;
        TraceChanged "trace-changed": NotFound;
        CannotFollow "cannot-follow": Failed;
        RingUnreadable "ring-unreadable": Lost;
        UnusedSlot "unused-slot": Lost;
        HeaderMended "header-mended": Inferred;
        CurrentPointer "current-pointer": Inferred;
        CurrentUnaligned "current-unaligned": Inferred;
        CurrentMisplaced "current-misplaced": Inferred;
        CurrentDoubtful "current-doubtful": Inferred;
        CurrentDiffers "current-differs": Inferred;
        SlotsIncoherent "slots-incoherent": Inferred;
        OrderUnknown "order-unknown": Inferred;
        WrapUnknown "wrap-unknown": Inferred;
        InsertionInProgress "insertion-in-progress": Lost, Failed;
        SlotOverwritten "slot-overwritten": Lost;
        FilteredEventsOverwrite "filtered-events-overwrite": Inferred;
        PreviousRun "previous-run": Inferred;
        JoinedGap "joined-gap": Lost;
        SameBuffer "same-buffer": Note;
        CoresInferred "cores-inferred": Inferred;
        RegistryFull "registry-full": Note;
        RegistryUnreadable "registry-unreadable": Lost;
        RegistryTooLarge "registry-too-large": Lost;
        NameSize "name-size": Inferred;
        NameUnterminated "name-unterminated": Note;
        ClockStopped "clock-stopped": Note;
        ClockCountsEvents "clock-counts-events": Note;
        ClockSleeps "clock-sleeps": Note;
        ClockPerCore "clock-per-core": Inferred;
        DirectionUnknown "direction-unknown": Inferred;
        WrapDoubtful "wrap-doubtful": Inferred;
        StampsStepBack "stamps-step-back": Inferred;
        ClockOfTicks "clock-of-ticks": Inferred;
        MaskContradicted "mask-contradicted": Inferred;
        PeriodInferred "period-inferred": Inferred;
        RateConfirmed "rate-confirmed": Note;
        GapLongerThanClock "gap-longer-than-clock": Lost;
        NoStamps "no-stamps": Note;
        HighWordUnknown "high-word-unknown": Inferred;
        PacketDamaged "packet-damaged": Inferred;
        ChainBroken "chain-broken": Lost;
        SequenceGap "sequence-gap": Lost;
        EventsDropped "events-dropped": Lost;
        SnapshotOverwritten "snapshot-overwritten": Lost;
        SnapshotIncomplete "snapshot-incomplete": Lost;
        LayoutInferred "layout-inferred": Inferred;
        BufferLost "buffer-lost": Lost;
        BufferGap "buffer-gap": Lost;
        BufferDamaged "buffer-damaged": Inferred;
        RingOpen "ring-open": Lost;
        OrphanParts "orphan-parts": Note, Lost;
        EventIncomplete "event-incomplete": Lost;
        EventDamaged "event-damaged": Lost;
        UnknownEvent "unknown-event": Note;
        UnverifiedRelease "unverified-release": Inferred;
    }
    "the-kernels-objects" {
        NoKernelSymbol "no-kernel-symbol": Failed, Inferred;
        NoThreads "no-threads": NotFound;
        KernelLayout "kernel-layout": Failed, Inferred;
        KernelLayoutTail "kernel-layout-tail": Inferred;
        KernelDamaged "kernel-damaged": Inferred, Lost;
        KernelUnreadable "kernel-unreadable": Lost;
        StackUsedUp "stack-used-up": Inferred;
        StackPointerOutside "stack-pointer-outside": Inferred;
        CpuInferred "cpu-inferred": Inferred;
        NoSavedFrame "no-saved-frame": Note;
        RegUnused "reg-unused": Note;
    }
    "the-evidence-core" {
        CoreLeftOut "core-left-out": Note;
        NothingToWrite "nothing-to-write": Failed;
        ElfDiffers "elf-differs": Inferred;
    }
    "output" {
        Output "output": Failed;
        BrokenPipe "broken-pipe": Silent;
        Install "install": Failed;
        Demo "demo": Failed;
    }
}

impl Code {
    /// The usual severity of an issue with this code.
    pub fn severity(self) -> Severity {
        self.kinds().iter().find_map(|k| k.severity()).unwrap_or(Severity::Note)
    }

    /// True for what is said of files: of a core, a dump, an ELF.
    pub fn is_about_files(self) -> bool {
        self.anchor() == "files"
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
