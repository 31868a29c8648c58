package app

import (
	"bridge/internal/httpapi"
	"bridge/reconcile"
)

func reconcileStatus(s reconcile.Status) *httpapi.ReconcileStatus {
	one := &httpapi.ReconcileStatus{
		Running: s.Running, Waiting: s.Waiting,
		VerifiedThrough: httpapi.Moment(s.Verified), NextAt: httpapi.Moment(s.Next), Guard: httpapi.Given(s.Guard), LastError: httpapi.Given(s.LastError),
	}
	if s.Running {
		fillRunning(one, s.Progress)
	} else {
		fillEnded(one, s)
	}
	if s.Totals.Ended+s.Totals.Failed > 0 {
		one.LastRun = reconcileReport(s.Last)
	}
	if s.Totals.Dry > 0 {
		one.LastDryRun = reconcileReport(s.LastDry)
	}
	return one
}

// fillRunning fills in the run under way.
func fillRunning(r *httpapi.ReconcileStatus, p reconcile.Progress) {
	r.DryRun, r.StartedAt = p.Mode.DryRun, httpapi.Moment(p.Started)
	r.Rows, r.RowsOf, r.Percent = p.Scanned, p.Estimated, 100*p.Share
	r.RowsPerSecond, r.SecondsLeft = p.Rate, p.Left.Seconds()
	r.DifferenceCounts, r.Absent = differenceCounts(p.Verdict), p.Gone
}

// fillEnded fills in the last run. If it ended before the process started, only its end is known.
func fillEnded(r *httpapi.ReconcileStatus, s reconcile.Status) {
	last := s.Last
	r.StartedAt, r.EndedAt = httpapi.Moment(last.Started), httpapi.Moment(last.Ended)
	r.Rows, r.Resumed, r.Unjudged = last.Scanned, last.Resumed, httpapi.Given(last.Unjudged)
	r.DifferenceCounts, r.Absent = differenceCounts(last.Verdict), last.Gone
	if last.Started.IsZero() && s.LastError == "" {
		r.EndedAt = httpapi.Moment(s.LastEnded)
	}
	if r.EndedAt != nil {
		r.Percent, r.RowsOf = 100, r.Rows
	}
	if took := last.Ended.Sub(last.Started); r.StartedAt != nil && took > 0 && !last.Resumed {
		r.RowsPerSecond = float64(last.Scanned) / took.Seconds()
	}
}

func reconcileReport(r reconcile.Report) *httpapi.ReconcileReport {
	report := &httpapi.ReconcileReport{
		StartedAt: httpapi.Moment(r.Started), EndedAt: httpapi.Moment(r.Ended), DryRun: r.DryRun, Resumed: r.Resumed,
		Rows: r.Scanned, DifferenceCounts: differenceCounts(r.Verdict), Absent: r.Gone,
		Guard: httpapi.Given(r.Guard), Unjudged: httpapi.Given(r.Unjudged), Error: httpapi.Given(r.Error), VerifiedThrough: httpapi.Moment(r.Verified), Differences: []httpapi.DifferenceStatus{},
	}
	for _, d := range r.Differences {
		report.Differences = append(report.Differences, httpapi.DifferenceStatus(d))
	}
	return report
}

func differenceCounts(v reconcile.Verdict) httpapi.DifferenceCounts {
	return httpapi.DifferenceCounts{Added: v.Added, Modified: v.Modified, Deleted: v.Deleted, Missed: v.Missed}
}
