package buscopy

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"example.org/bridge/client/backoff"
	"example.org/bridge/internal/share"
)

// Generations are those of the number of shares (decision 24). Each has a number of shares, by the
// first process that proposed it: all read the proposals in one order. That process opens the
// generation once it has shut out those of former ones. A process works in the last generation, if
// it is open and has its number of shares.
type Generations struct {
	opts  GenerationsOptions
	begin string
	// token tells the signs of this process from those of others.
	token string
	// follow returns the entries, and may return signs that were taken back.
	follow func(context.Context) ([]Entry, error)

	mu sync.Mutex
	// works says that the process has joined a generation; joined is that one, 0 before there were
	// shares.
	works  bool
	joined uint64
	// signed is when the last sign of life was given that others wait for, by a clock that stands
	// still while the machine is suspended, signedAt by one that goes on; failed is the last error
	// of giving one, and of the look behind it.
	signed, signedAt time.Time
	failed           error
	// before are the keys of the processes of the share that had entered when this one began: true
	// has those of when its turn came. own is its key.
	before map[bool][]string
	own    string
}

// GenerationsOptions set up Generations.
type GenerationsOptions struct {
	Bucket Bucket
	Domain string
	// Share is that of the process, Host names where it runs, for people.
	Share share.Share
	Host  string
	// May reports whether the process may change the number now: one that waits in a standby group
	// may not. Nil: it may.
	May func() bool
	// ShutOut ends what processes of a share may still publish: when it returns, nothing of them
	// comes to the bus that is not there, unless they begin again, and then they read the
	// generations. Nil: the bus cannot do that.
	ShutOut func(context.Context, share.Share) error
	// Waits is called with the reason for which the process waits, nil once it does not. Optional.
	Waits func(error)
}

// silence is how long a process of another generation is waited for that gives no sign; each gives
// one every third of it.
const silence = 45 * time.Second

// generationBits bounds the number of a generation: nobody changes the number of shares so often.
const generationBits = 24

var (
	// ErrFormer is returned to a process that works by a former number of shares.
	ErrFormer  = errors.New("the number of shares has changed")
	errUnheard = fmt.Errorf("this process has given no sign of life for %s, and has to look at the number of shares first", silence)
	// ErrNumber is returned to a command that has another number than the one in force.
	ErrNumber = errors.New("the command has another number of shares")
)

// NewGenerations returns the generations of a domain.
func NewGenerations(o GenerationsOptions) *Generations {
	if o.May == nil {
		o.May = func() bool { return true }
	}
	if o.Waits == nil {
		o.Waits = func(error) {}
	}
	// No stream has this name.
	begin := streamKey(o.Domain, "-shares")
	return &Generations{opts: o, begin: begin, token: newToken(), follow: o.Bucket.Follow(begin), before: make(map[bool][]string)}
}

func newToken() string { return strings.ToLower(rand.Text()[:12]) }

// Joined returns the generation in which the process works.
func (g *Generations) Joined() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.joined
}

type state struct {
	// generation is the last one, 0 where there is none, with its number of shares; open says that
	// processes may work in it.
	generation uint64
	number     int
	open       bool
	// former are the numbers of shares that are to be shut out before the last one is opened: of
	// all generations from the one that was open before.
	former []int
	// signs are the last ones of the processes of the last generation, by their keys.
	signs map[string]string
	// entered are the keys of the processes that have entered the last generation.
	entered []string
}

func (g *Generations) read(ctx context.Context) (state, error) {
	return g.stateOf(g.opts.Bucket.Entries(ctx, g.begin))
}

// readNew is read of what is new. Signs that were taken back may be there, and those
// who had entered; nobody deletes the rest.
func (g *Generations) readNew(ctx context.Context) (state, error) { return g.stateOf(g.follow(ctx)) }

// stateOf returns the state that entries have. Keys are n<generation>.<number>.<token>, of
// proposals; o<generation>, of those that are open; s<generation>.<index>, of signs; and
// e<generation>.<index>.<epoch>.<token>, of processes that may have published.
func (g *Generations) stateOf(entries []Entry, failed error) (s state, err error) {
	if failed != nil {
		return state{}, failed
	}
	// Below all generations there are no shares.
	proposed, opened, signs := map[uint64]int{0: 0}, make(map[uint64]bool), make(map[uint64]map[string]string)
	entered := make(map[uint64][]string)
	for _, e := range entries {
		key := strings.TrimPrefix(e.Key, g.begin)
		if key == "" || !strings.Contains("nose", key[:1]) {
			// Of a later version, which knows what others do not read.
			continue
		}
		parts := strings.Split(key[1:], ".")
		generation, err := strconv.ParseUint(parts[0], 10, generationBits)
		if err != nil {
			return state{}, fmt.Errorf("%w: entry %.200q", ErrDamaged, e.Key)
		}
		_, known := proposed[generation]
		switch {
		case key[0] == 'n' && len(parts) == 3 && !known:
			proposed[generation], err = strconv.Atoi(parts[1])
			s.generation = max(s.generation, generation)
		case key[0] == 'o':
			// Whatever becomes of the order of proposals: what was opened stays.
			proposed[generation], err = strconv.Atoi(string(e.Value))
			opened[generation] = true
		case key[0] == 's':
			if signs[generation] == nil {
				signs[generation] = make(map[string]string)
			}
			signs[generation][key] = string(e.Value)
		case key[0] == 'e' && len(parts) == 4:
			entered[generation] = append(entered[generation], e.Key)
		}
		if n := proposed[generation]; err != nil || n < 0 || n > share.Most {
			return state{}, fmt.Errorf("%w: entry %.200q", ErrDamaged, e.Key)
		}
	}
	s.number, s.open, s.signs, s.entered = proposed[s.generation], opened[s.generation], signs[s.generation], entered[s.generation]
	for _, before := range slices.Backward(slices.Sorted(maps.Keys(proposed))) {
		if before >= s.generation {
			continue
		}
		if s.former = append(s.former, proposed[before]); opened[before] {
			break
		}
	}
	return s, nil
}

// Join waits until the process may work by its number of shares. Where another number is in force,
// share 0, or a process without shares, changes it, once no process works by that one any more.
// Processes that give no signs are not waited for, as those without shares beside the first ones.
func (g *Generations) Join(ctx context.Context) error {
	pause := backoff.Backoff{First: 200 * time.Millisecond, Max: 3 * time.Second}
	seen := make(map[string]sign)
	for joined := false; !joined; {
		err := pause.Retry(ctx, func() error {
			s, err := g.read(ctx)
			if err == nil {
				joined, err = g.step(ctx, &s, seen)
			}
			return err
		}, g.waits)
		if err != nil {
			return err
		}
	}
	g.opts.Waits(nil)
	return nil
}

func (g *Generations) waits(err error) bool { g.opts.Waits(err); return true }

func (g *Generations) waitState(ctx context.Context, read func(context.Context) (state, error)) (s state, err error) {
	err = new(backoff.Backoff).Retry(ctx, func() (err error) { s, err = read(ctx); return err }, g.waits)
	if err == nil {
		g.opts.Waits(nil)
	}
	return s, err
}

// Last joins the last generation, for a command: it changes no number, and waits for the bus alone.
// ErrNumber says that another number is in force.
func (g *Generations) Last(ctx context.Context) error {
	var damaged error
	s, err := g.waitState(ctx, func(ctx context.Context) (s state, err error) {
		if s, err = g.read(ctx); errors.Is(err, ErrDamaged) {
			damaged, err = err, nil
		}
		return s, err
	})
	switch n := g.opts.Share.Number; {
	case err != nil:
		return err
	case damaged != nil:
		return damaged
	case s.number != n:
		return fmt.Errorf("%w: %s in force, and the command has %s: type it with that number, or start bridge with the other one before", ErrNumber, isInForce(s.number), number(n))
	case s.generation > 0 && !s.open:
		return fmt.Errorf("%w: share 0 has not begun yet with %s, which it begins: start bridge before", ErrNumber, number(n))
	}
	g.join(s.generation)
	return nil
}

func (g *Generations) join(generation uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.works, g.joined = true, generation
}

// sign is a sign of life, and when it was first seen.
type sign struct {
	value string
	at    time.Time
}

// step takes a step towards the generation to join. An error says what the process waits for.
func (g *Generations) step(ctx context.Context, s *state, seen map[string]sign) (joined bool, err error) {
	own := g.opts.Share
	changes := own.Index == 0 && g.opts.May()
	switch {
	case s.generation == 0 && !own.One(), s.number == own.Number && s.open:
		g.join(s.generation)
		return true, g.Sign(ctx)
	case !changes && s.number == own.Number:
		return false, fmt.Errorf("share %s waits: share 0 has not begun yet with %s, which it begins", own, number(own.Number))
	case !changes:
		return false, fmt.Errorf("share %s waits: %s in force; share 0 of %s has to change that: start it", own, isInForce(s.number), number(own.Number))
	case s.number == own.Number && s.generation > 0:
		return false, g.openLast(ctx, s)
	}
	if alive := g.alive(s, seen); alive != "" {
		return false, fmt.Errorf("this process has %s, and %s in force: it waits until the processes by that number have ended, and has heard of %s in the last %s: end it, or set the number back",
			number(own.Number), isInForce(s.number), alive, silence)
	}
	// Each attempt has a key of its own. One that fails may be set later, and a key that is set
	// again moves behind the others: then another proposal would be the first one.
	key := fmt.Sprintf("%sn%d.%d.%s", g.begin, s.generation+1, own.Number, newToken())
	return false, g.opts.Bucket.Put(ctx, key, []byte("by "+g.opts.Host))
}

func number(n int) string {
	switch n {
	case 0:
		return "no shares"
	case 1:
		return "one share"
	}
	return fmt.Sprintf("%d shares", n)
}

func isInForce(n int) string {
	if n == 1 {
		return "one share is"
	}
	return number(n) + " are"
}

func (g *Generations) openLast(ctx context.Context, s *state) error {
	if g.opts.ShutOut != nil {
		if last, err := g.shutOutFormer(ctx, s); !last || err != nil {
			return err
		}
	}
	return g.opts.Bucket.Put(ctx, fmt.Sprintf("%so%d", g.begin, s.generation), []byte(strconv.Itoa(s.number)))
}

// shutOutFormer shuts out the processes of former generations. One that begins meanwhile finds the
// proposal, once it cannot be shut out any more. It looks before each step: if it stood still, a
// former number may be in force again. It reports whether the generation still waits to be opened.
func (g *Generations) shutOutFormer(ctx context.Context, s *state) (last bool, err error) {
	for _, number := range s.former {
		for index := range max(1, number) {
			if now, err := g.readNew(ctx); err != nil || now.open || now.generation != s.generation {
				return false, err
			}
			if err := g.opts.ShutOut(ctx, share.Share{Index: index, Number: number}); err != nil {
				return false, fmt.Errorf("end what share %d of the former %d may publish: %w", index, number, err)
			}
		}
	}
	return true, nil
}

// alive names a process of the last generation that gives signs, empty where none does.
func (g *Generations) alive(s *state, seen map[string]sign) (name string) {
	for key, value := range s.signs {
		was := seen[key]
		if was.value != value {
			was = sign{value, time.Now()}
			seen[key] = was
		}
		if time.Since(was.at) < silence {
			host, _, _ := strings.Cut(value, " ")
			name = fmt.Sprintf("share %s on %.100s", key[strings.LastIndex(key, ".")+1:], host)
		}
	}
	return name
}

func (g *Generations) signKey() string {
	return fmt.Sprintf("%ss%d.%d", g.begin, g.Joined(), g.opts.Share.Index)
}

// Sign gives a sign of life, where there are shares or were some, and then looks at the number:
// the former sign may be so old that others could change that. It returns ErrFormer where they
// have.
func (g *Generations) Sign(ctx context.Context) error {
	generation, begun := g.Joined(), time.Now()
	err := g.sign(ctx, generation, begun)
	// Others waited for this process until the bus took the sign, so they wait on, whatever becomes
	// of the look.
	heard := err == nil && g.isHeard()
	if err == nil {
		var s state
		if s, err = g.readNew(ctx); err == nil && s.generation > generation {
			err = ErrFormer
		}
	}
	if err == nil {
		// What waited in Heard may have given up.
		g.opts.Waits(nil)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failed = err; err == nil || heard && !errors.Is(err, ErrFormer) {
		g.signed, g.signedAt = begun, begun.Round(0)
	}
	return err
}

func (g *Generations) sign(ctx context.Context, generation uint64, at time.Time) error {
	if generation == 0 {
		return nil
	}
	return g.opts.Bucket.Put(ctx, g.signKey(), fmt.Appendf(nil, "%s %s %d", g.opts.Host, g.token, at.UnixMilli()))
}

// isHeard reports whether others still wait for this process, where there are shares or were some.
func (g *Generations) isHeard() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.joined == 0 || max(time.Since(g.signed), time.Since(g.signedAt)) < silence
}

// Heard returns once others wait for this process before they change the number: at once but for
// one that stood still, or whose signs the bus did not take. Without it, such a process would go on
// beside those by another number until it looks at that.
func (g *Generations) Heard(ctx context.Context) error {
	if g.isHeard() {
		return nil
	}
	g.mu.Lock()
	failed := g.failed
	g.mu.Unlock()
	if failed == nil {
		g.opts.Waits(errUnheard)
	} else {
		g.opts.Waits(fmt.Errorf("%w: %w", errUnheard, failed))
	}
	for !g.isHeard() {
		if err := backoff.Pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	g.opts.Waits(nil)
	return nil
}

// Permit returns nil if the generation of the process is the last one, else ErrFormer. It is to be
// called before former processes of its share are shut out, once they are and the epoch of this one
// is durable, and before and behind each decision about START.
func (g *Generations) Permit(ctx context.Context) error {
	s, err := g.waitState(ctx, g.readNew)
	if err == nil && (s.generation != g.Joined() || s.number != g.opts.Share.Number) {
		err = fmt.Errorf("%w: %s in force now, and this process has %s", ErrFormer, isInForce(s.number), number(g.opts.Share.Number))
	}
	return err
}

// Run gives signs of life until ctx ends. It returns ErrFormer when the number of shares has
// changed.
func (g *Generations) Run(ctx context.Context) error {
	for pause := silence / 3; backoff.Pause(ctx, pause) == nil; {
		g.mu.Lock()
		works := g.works
		g.mu.Unlock()
		if !works {
			continue
		}
		// Another error shows at the next copy of the progress.
		if errors.Is(g.Sign(ctx), ErrFormer) {
			return g.Permit(ctx)
		}
		if pause = silence / 3; !g.isHeard() {
			// The bus took it too late, and batches wait for another one.
			pause = time.Second
		}
	}
	return nil
}

// Leave has nobody wait for this process any more: call it when the process ends, not at a reload.
func (g *Generations) Leave() {
	if g.Joined() == 0 {
		return
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), endWithin, fmt.Errorf("the bus did not take it in %s", endWithin))
	defer cancel()
	entries, err := g.opts.Bucket.Entries(ctx, g.signKey())
	if err != nil || !slices.ContainsFunc(entries, func(e Entry) bool { return strings.Contains(string(e.Value), " "+g.token+" ") }) {
		// Another process of the share has the last word, or others wait a while.
		return
	}
	_ = g.opts.Bucket.Delete(ctx, []string{g.signKey()})
}
