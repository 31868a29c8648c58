package world

// Sections judges a world with rows and entities piece by piece, and forgets what is judged, also
// in the record of the rows. What it keeps to find what comes again takes about 80 bytes an event.
type Sections struct {
	*Publisher
	rows, entities section
}

// section is what of a stream is judged so far.
type section struct {
	stream string
	judge  *Judge
	read   Offsets
}

// InSections returns what judges the world from its beginning. Call it before there are writers.
func (p *Publisher) InSections() *Sections {
	p.T.Helper()
	expect := Expect{Sampled: true}
	return &Sections{
		Publisher: p,
		rows:      section{stream: Orders, judge: p.newJudge(Orders, expect)},
		entities:  section{stream: Strict, judge: p.newJudge(Strict, expect)},
	}
}

// EndSection judges what has come since the last section, as strictly as Publisher.Figures save
// that schemas are sampled. The writers have ended, and all is published.
func (s *Sections) EndSection() {
	s.T.Helper()
	s.ReconcileByHTTP(Strict, "")
	s.rows.judge.record.(*rowRecord).add(s.World.Rows.Forget()...)
	s.entities.judge.record.(*entityRecord).histories = historiesByEntity(s.World.Entities.Histories())
	for _, of := range []*section{&s.rows, &s.entities} {
		of.read = s.Bus.ReadFrom(s.T, s.Destination(of.stream), of.read, of.judge.Message)
		s.compareTable(of.stream, of.judge)
		of.judge.endSection()
	}
}

// Figures returns what was found in all sections, at the end of the last one, with what `bridge
// verify` says of all that the bus holds.
func (s *Sections) Figures() Figures {
	s.T.Helper()
	return s.figures(&s.rows.judge.Verdict, &s.entities.judge.Verdict, Expect{})
}
