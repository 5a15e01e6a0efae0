//! Panels of the dashboard.

/// Form of a panel.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// One number, red from 1 on.
    Alarm,
    /// One number.
    Number,
    /// Lines over time.
    Lines,
}

/// One panel.
pub(super) struct Panel {
    pub(super) title: &'static str,
    pub(super) form: Form,
    /// Unit, by its name in Grafana.
    pub(super) unit: &'static str,
    /// Queries with their legends.
    pub(super) queries: &'static [(&'static str, &'static str)],
    pub(super) meaning: &'static str,
}

const fn panel(
    title: &'static str,
    form: Form,
    unit: &'static str,
    queries: &'static [(&'static str, &'static str)],
    meaning: &'static str,
) -> Panel {
    Panel { title, form, unit, queries, meaning }
}

use Form::{Alarm, Lines, Number};

/// Rows of panels.
pub(super) const ROWS: [(&str, &[Panel]); 6] = [
    (
        "Is everything protected?",
        &[
            panel(
                "Webhooks with all rules",
                Number,
                "none",
                &[("sum(depguard_rules_loaded)", "")],
                "A webhook that has not loaded the rules refuses each review.",
            ),
            panel(
                "Webhooks in doubt",
                Alarm,
                "none",
                &[("sum(depguard_rules_in_doubt)", "")],
                "These can't follow the rules of a shard, and decide only by rules that are proved current.",
            ),
            panel(
                "Rules by which webhooks decide",
                Number,
                "none",
                &[(r#"max(depguard_rules{state="usable"})"#, "")],
                "Usable rules.",
            ),
            panel(
                "Broken rules",
                Alarm,
                "none",
                &[(r#"max(depguard_rules{state="broken"})"#, "")],
                "Where such a rule applies, each deletion is refused.",
            ),
            panel(
                "Rules that don't protect",
                Alarm,
                "none",
                &[(r#"sum(depguard_controller_rules{condition="Enforced",status!="True",reason!="Dormant"})"#, "")],
                "The condition Enforced is not True.",
            ),
            panel(
                "References to missing targets",
                Number,
                "none",
                &[("sum(depguard_controller_dangling_references)", "")],
                "Counted for rules with onMissing.",
            ),
            panel(
                "Certificate ends in",
                Number,
                "s",
                &[("min(depguard_certificate_expiry_timestamp_seconds) - time()", "")],
                "The webhook's certificate.",
            ),
            panel(
                "CA certificate ends in",
                Number,
                "s",
                &[("min(depguard_controller_ca_expiry_timestamp_seconds) - time()", "")],
                "The last certificate by which API servers verify the webhook.",
            ),
        ],
    ),
    (
        "Reviews",
        &[
            panel(
                "Reviews by decision",
                Lines,
                "reqps",
                &[("sum by (decision) (rate(depguard_reviews_total[5m]))", "{{decision}}")],
                "referenced, undecided and not-ready are refusals.",
            ),
            panel(
                "Refusals by cause",
                Lines,
                "reqps",
                &[("sum by (cause) (rate(depguard_refusals_total[5m]))", "{{cause}}")],
                "docs/operations.md has the remedy for each.",
            ),
            panel(
                "Time to a decision",
                Lines,
                "s",
                &[
                    (
                        "histogram_quantile(0.5, sum by (le, decided_by) (rate(depguard_review_duration_seconds_bucket[5m])))",
                        "half, by {{decided_by}}",
                    ),
                    (
                        "histogram_quantile(0.99, sum by (le, decided_by) (rate(depguard_review_duration_seconds_bucket[5m])))",
                        "99 %, by {{decided_by}}",
                    ),
                ],
                "API servers wait 10 s and then refuse.",
            ),
            panel(
                "Reviews about locks",
                Lines,
                "reqps",
                &[("sum by (decision) (rate(depguard_lock_reviews_total[5m]))", "{{decision}}")],
                "locked, guarded, invalid, unrecorded and undecided are refusals.",
            ),
            panel(
                "Reviews of owners",
                Lines,
                "reqps",
                &[("sum by (decision) (rate(depguard_owner_reviews_total[5m]))", "{{decision}}")],
                "foreground, still-owns and undecided are refusals.",
            ),
            panel(
                "Reviews of specs",
                Lines,
                "reqps",
                &[("sum by (decision) (rate(depguard_rule_reviews_total[5m]))", "{{decision}}")],
                "Rules, locks and owners that were about to be stored; refused ones don't work as written.",
            ),
            panel(
                "Overrides, warnings, audits",
                Lines,
                "reqps",
                &[
                    ("sum(rate(depguard_overrides_total[5m]))", "override"),
                    ("sum by (kind) (rate(depguard_diagnostics_total[5m]))", "{{kind}}"),
                    ("sum(rate(depguard_misfits_total[5m]))", "value that is no name"),
                ],
                "An override deletes an object that is still referenced.",
            ),
            panel(
                "Events about refusals",
                Lines,
                "reqps",
                &[("sum by (result) (rate(depguard_denial_events_total[5m]))", "{{result}}")],
                "With --enable denial-events.",
            ),
            panel(
                "Spans of traces",
                Lines,
                "ops",
                &[("sum by (result) (rate(depguard_spans_total[5m]))", "{{result}}")],
                "With --otlp-endpoint. The collector does not take what failed.",
            ),
            panel(
                "Rejected requests",
                Lines,
                "reqps",
                &[("sum by (cause) (rate(depguard_rejections_total[5m]))", "{{cause}}")],
                "Requests that are no reviews, or that came too late or too many at a time.",
            ),
        ],
    ),
    (
        "Reads",
        &[
            panel(
                "Answers of API servers",
                Lines,
                "reqps",
                &[("sum by (answer) (rate(depguard_read_answers_total[5m]))", "{{answer}}")],
                "429, 5xx and failed refuse deletions.",
            ),
            panel(
                "Searches for dependents",
                Lines,
                "ops",
                &[("sum by (strategy) (rate(depguard_lookups_total[5m]))", "{{strategy}}")],
                "FieldSelector is the cheapest, ClusterScan the dearest.",
            ),
            panel(
                "Lists",
                Lines,
                "ops",
                &[("sum by (kind) (rate(depguard_lists_total[5m]))", "{{kind}}")],
                "Lists that the webhook began.",
            ),
            panel(
                "Reads, sent and shared",
                Lines,
                "ops",
                &[
                    ("sum by (size) (rate(depguard_reads_total[5m]))", "{{size}}, sent"),
                    ("sum by (size) (rate(depguard_coalesced_total[5m]))", "{{size}}, shared"),
                ],
                "A shared read answers several reviews.",
            ),
            panel(
                "Bytes read",
                Lines,
                "Bps",
                &[("sum by (size) (rate(depguard_read_bytes_total[5m]))", "{{size}}")],
                "Length of the answers.",
            ),
        ],
    ),
    (
        "Limits and watches",
        &[
            panel(
                "Places in use",
                Lines,
                "percentunit",
                &[("max by (queue) (depguard_queue_places / depguard_queue_places_limit)", "{{queue}}")],
                "At 100 % further reviews are refused, and further reads wait.",
            ),
            panel(
                "Memory in use",
                Lines,
                "percentunit",
                &[("max by (queue) (depguard_queue_bytes / depguard_queue_bytes_limit)", "{{queue}}")],
                "At 100 % further reviews and reads wait.",
            ),
            panel(
                "Connections in use",
                Lines,
                "percentunit",
                &[("max(depguard_connections / depguard_connections_limit)", "connections")],
                "At 100 % further API servers wait.",
            ),
            panel(
                "Silence of watches",
                Lines,
                "s",
                &[("max by (resource) (depguard_watch_age_seconds)", "{{resource}}")],
                "After 60 s a webhook refuses.",
            ),
            panel(
                "Failing watches",
                Lines,
                "none",
                &[("max by (resource) (depguard_watch_failing)", "{{resource}}")],
                "1 while depguard can't list the resource; the log says why.",
            ),
            panel(
                "Files that can't be loaded",
                Lines,
                "none",
                &[
                    ("max by (file) (depguard_reload_failing)", "{{file}}"),
                    ("sum by (file) (increase(depguard_reload_failures_total[5m]))", "{{file}}, in 5 minutes"),
                ],
                "The previous content stays in force.",
            ),
        ],
    ),
    (
        "Controller",
        &[
            panel(
                "Controllers",
                Lines,
                "none",
                &[("sum(depguard_controller_ready)", "ready"), ("sum(depguard_controller_leader)", "leading")],
                "One leads, the others wait for its end.",
            ),
            panel(
                "Rounds",
                Lines,
                "s",
                &[
                    (
                        "histogram_quantile(0.99, sum by (le) (rate(depguard_controller_round_duration_seconds_bucket[5m])))",
                        "99 % last at most",
                    ),
                    ("time() - max(depguard_controller_last_round_timestamp_seconds)", "since the last one"),
                ],
                "A round reads everything, and writes what differs.",
            ),
            panel(
                "Rules by condition",
                Lines,
                "none",
                &[("sum by (condition, status) (depguard_controller_rules)", "{{condition}} {{status}}")],
                "docs/status.md has the reasons.",
            ),
            panel(
                "References to missing targets, by rule",
                Lines,
                "none",
                &[("max by (rule) (depguard_controller_dangling_references)", "{{rule}}")],
                "Counted for rules with onMissing, on Kubernetes.",
            ),
            panel(
                "Locks and owners",
                Lines,
                "none",
                &[
                    ("sum by (programmed) (depguard_controller_locks)", "locks, Programmed {{programmed}}"),
                    ("sum by (phase) (depguard_controller_owners)", "owners, {{phase}}"),
                ],
                "By condition and by phase.",
            ),
            panel(
                "Webhook configurations",
                Lines,
                "ops",
                &[("sum by (outcome) (rate(depguard_controller_installs_total[5m]))", "{{outcome}}")],
                "Configurations that the controller checked.",
            ),
            panel(
                "Writes of statuses",
                Lines,
                "ops",
                &[("sum by (outcome) (rate(depguard_controller_status_writes_total[5m]))", "{{outcome}}")],
                "An outdated write is tried again.",
            ),
            panel(
                "Versions",
                Lines,
                "none",
                &[("sum by (component, version) (depguard_build_info)", "{{component}} {{version}}")],
                "Controller and webhook have the same version, except during an upgrade.",
            ),
        ],
    ),
    (
        "Interlock",
        &[
            panel(
                "Reference registers",
                Lines,
                "none",
                &[("sum by (state) (depguard_controller_registers)", "{{state}}")],
                "Requests about the targets of a register that is not open are refused.",
            ),
            panel(
                "Marks",
                Lines,
                "none",
                &[("sum by (kind) (depguard_controller_register_marks)", "{{kind}}")],
                "Requests under way, or over a short time ago.",
            ),
            panel(
                "Fullest register",
                Lines,
                "bytes",
                &[("max(depguard_controller_register_bytes)", "fullest")],
                "A register of 512 KiB is full, and requests about its targets are put off.",
            ),
            panel(
                "Oldest mark",
                Lines,
                "s",
                &[("max(depguard_controller_register_oldest_mark_seconds)", "oldest")],
                "Marks that are older than --interlock-wait are taken away.",
            ),
            panel(
                "Refusals by the interlock alone",
                Lines,
                "ops",
                &[("sum by (side, reason) (rate(depguard_interlock_refusals_total[5m]))", "{{side}}, {{reason}}")],
                "The other side's request is under way, or a register can't be read or written.",
            ),
            panel(
                "Notes and writes of registers",
                Lines,
                "ops",
                &[
                    ("sum(rate(depguard_register_notes_total[5m]))", "notes"),
                    ("sum by (answer) (rate(depguard_register_writes_total[5m]))", "writes, {{answer}}"),
                ],
                "One write records all notes that wait.",
            ),
            panel(
                "Bytes of registers",
                Lines,
                "Bps",
                &[("sum(rate(depguard_register_written_bytes_total[5m]))", "written")],
                "Length of the registers that webhooks write.",
            ),
            panel(
                "Marks that are looked into or left",
                Lines,
                "ops",
                &[
                    ("sum by (side) (rate(depguard_register_mark_checks_total[5m]))", "looked into, {{side}}"),
                    ("sum(rate(depguard_register_abandoned_marks_total[5m]))", "left by reviews that were given up"),
                    ("sum(rate(depguard_controller_register_marks_removed_total[5m]))", "taken away by the controller"),
                ],
                "Void marks hold nobody up.",
            ),
        ],
    ),
];
