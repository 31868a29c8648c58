package acceptance

import (
	"encoding/json"
	"strconv"
	"strings"

	"bridge/internal/verify"
)

// judge fills the score and fails the test for what is wrong.
func (tr *trial) judge() {
	tr.t.Helper()
	s := &tr.score
	rows := newRuling(tr.facts.Record().Rows(), expectations{reconciled: tr.fault.torn})
	if tr.letters != nil {
		rows.aside = tr.letters.tokens
	}
	tr.lane.harvest(tr.t, tr.destination(facts), rows.message)
	a := rows.end()
	s.count(facts, &a)

	// What vanished, and what was changed without a trace, reconcile finds.
	tr.asks(entities, "")
	r := newStateRuling(stateSchemas(tr.t), tr.entities.Histories())
	r.letters, r.torn, r.emptied = tr.letters, tr.fault.torn, tr.fault.empties
	tr.lane.harvest(tr.t, tr.destination(entities), r.message)
	r.ended()
	different := r.fold.compare(tableFold(tr.t, tr.db, entities))
	if tr.fault.torn {
		tr.excuse(r, &different)
	}
	s.count(entities, &r.account)
	if found := different.verdict(); found != "" {
		s.False += strings.Count(found, "\n") + 1
		s.find("the bus folds to something else than the table: %s", found)
	}
	if tr.letters == nil {
		extras := r.fold.compareExtras(tableExtras(tr.t, tr.db, entities))
		s.count(entities, &extras)
	}
	tr.boundRepeats()
	s.LogLines = strings.Count(tr.log.String(), "\n")
	s.Findings = append(s.Findings, chatter(tr.log.String())...)
	tr.verify()
	if len(s.Findings) > 0 {
		tr.t.Errorf("%s", strings.Join(s.Findings, "\n"))
	}
}

// excuse takes out of what the judges of entities have found what has to be so where the program knew nothing of them any more, and notes it.
func (tr *trial) excuse(r *stateRuling, different *account) {
	s := &tr.score
	s.LeftOver, s.Anew, s.Restated, s.Orphans = different.counts["extra"], len(r.begunAnew), r.restated, r.orphans
	if recorded := r.counts["extra"]; recorded != s.LeftOver {
		s.find("by the table %d entities are left over, by the writers' record %d", s.LeftOver, recorded)
	}
	r.forgive("extra")
	different.forgive("extra")
}

// boundRepeats holds the repeats against what invariant 6 allows.
func (tr *trial) boundRepeats() {
	s, f := &tr.score, tr.fault
	switch {
	case f.forgets:
		return
	case tr.lane.nats == nil && f.behind:
		return
	case tr.lane.nats == nil && f.repeats:
		rows, err := strconv.Atoi(tr.env["BRIDGE_BATCH_ROWS"])
		tr.check(err)
		s.Bound = tr.cuts * inFlight * rows
	}
	// JetStream drops all repeats.
	if s.Repeated > s.Bound {
		s.find("%d messages were stored twice, at most %d may be: %d cuts", s.Repeated, s.Bound, tr.cuts)
	}
}

// inFlight is how many batches of both streams one cut can find published and not saved. Of the release stream: two that were merged into the
// save under way, one that waits for the saver, one that the bus has just acknowledged. Of the capability stream: the one in the journal.
const inFlight = 4 + 1

// verify asks the program's own judge, which has to agree, and to name what is left over.
func (tr *trial) verify() {
	tr.t.Helper()
	status, stdout, stderr := bridge(tr.t, tr.env, "verify", "--json")
	var report verify.Report
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		tr.t.Fatalf("bridge verify: %v: %.600s %.600s", err, stdout, stderr)
	}
	named := make(map[verify.Fault]int)
	for _, stream := range report.Streams {
		for _, found := range stream.Faults {
			named[found.Fault] += int(found.Count)
		}
	}
	switch {
	case tr.letters != nil:
		if err := tr.letters.excuses(stdout); err != nil {
			tr.score.find("bridge verify: %v: %.600s", err, stdout)
		}
	case !tr.fault.torn && status != 0:
		tr.score.find("bridge verify: exit status %d: %.600s %.600s", status, stdout, stderr)
	case tr.fault.torn && (named[verify.Missing]+named[verify.Stale]+named[verify.Altered] > 0 || named[verify.Extra] != tr.score.LeftOver):
		tr.score.find("bridge verify: %d are left over and it names %v", tr.score.LeftOver, named)
	}
}
