package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"example.org/bridge/checkpoint/store"
	"example.org/bridge/checkpoint/store/pebble"
	"example.org/bridge/event"
	"example.org/bridge/internal/app"
	"example.org/bridge/internal/config"
	"example.org/bridge/internal/null"
	"example.org/bridge/internal/share"
	"example.org/bridge/internal/stream"
	"example.org/bridge/internal/terminal"
	"example.org/bridge/reconcile"
	"example.org/bridge/source/ledger"
)

// lockWait is how long a command waits for another one.
const lockWait = time.Second

// kept is what the commands work on: a store, and the copies on the bus where progress is kept
// there.
type kept struct {
	*pebble.Store
	image  store.Image
	path   string
	copies *app.Copies
	// onBus is the configuration of the share where progress is kept on the bus, else nil.
	onBus *config.Config
}

// isMine returns an error where a table of a stream is in another share than that of the command.
func (k *kept) isMine(key store.Key) error {
	if k.onBus == nil {
		return nil
	}
	s := k.onBus.Stream(key.Stream)
	if k.onBus.Share.Owns(s, key.Shard) {
		return nil
	}
	number := k.onBus.Share.Number
	return fmt.Errorf("%s of stream %s is in share %d/%d, and BRIDGE_SHARE is %s: type the command where that share is", key.Shard, key.Stream,
		share.Of(number, s.Name, s.Placed(key.Shard)), number, k.onBus.Share)
}

// checkpoint returns the folder of the checkpoint, and the configuration where progress is kept on
// the bus, else nil.
func (e *environment) checkpoint() (path string, onBus *config.Config, err error) {
	environ, err := e.variables()
	if err != nil {
		return "", nil, err
	}
	path, err = config.LoadCheckpointPath(environ)
	if !errors.Is(err, config.ErrOnBus) {
		return path, nil, err
	}
	if onBus, err = config.Load(environ, e.secrets); err != nil {
		return "", nil, err
	}
	return onBus.CheckpointPath, onBus, nil
}

// change calls do with the store of BRIDGE_CHECKPOINT_URL, which changes it about one stream, and
// prints what do says once that is durable, also on the bus, and all is closed. Unless create is
// set, a store that is not there is an error.
func (p *process) change(ctx context.Context, create bool, stream string, do func(*kept) (said string, err error)) error {
	path, onBus, err := p.checkpoint()
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && !create && onBus == nil {
		return noCheckpoint(path)
	}
	if onBus != nil {
		if err := app.MakeFolder(onBus); err != nil {
			return err
		}
	}
	defer keepOwner(path)()
	_, missing := os.Stat(path)
	said, err := changeAt(ctx, p.newLogger(slog.LevelWarn, "console"), path, onBus, stream, do)
	if err != nil {
		return err
	}
	if errors.Is(missing, fs.ErrNotExist) {
		if where, err := filepath.Abs(path); err == nil {
			path = where
		}
		if _, err := fmt.Fprintf(p.stderr, "there was no checkpoint at %s: this command has made it\n", terminal.Visible(path)); err != nil {
			return err
		}
	}
	return p.print(said + "\n")
}

// keepOwner returns a function that gives what root has written to a checkpoint to the owner of its
// folder: the user that runs bridge.
func keepOwner(path string) func() {
	info, err := os.Stat(path)
	if err != nil {
		info, err = os.Stat(filepath.Dir(path))
	}
	if err != nil || os.Geteuid() != 0 {
		return func() {}
	}
	owner := info.Sys().(*syscall.Stat_t)
	return func() {
		// What fails is left to root: bridge names the folder at its start. Nothing outside of the
		// folder is changed, though its owner may put links there meanwhile.
		root, err := os.OpenRoot(path)
		if err != nil {
			return
		}
		_ = fs.WalkDir(root.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			of, err := root.Lstat(name)
			if err != nil {
				return err
			}
			if is := of.Sys().(*syscall.Stat_t); is.Uid != 0 || !of.IsDir() && is.Nlink > 1 {
				return nil
			}
			return root.Lchown(name, int(owner.Uid), int(owner.Gid))
		})
		_ = root.Close()
	}
}

func changeAt(ctx context.Context, log *slog.Logger, path string, onBus *config.Config, stream string, do func(*kept) (string, error)) (said string, err error) {
	s, err := pebble.OpenOrReplace(ctx, path, pebble.Options{LockWait: lockWait, Log: log})
	if err != nil {
		return "", unopened(err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	k := &kept{Store: s, path: path}
	if onBus != nil {
		if onBus.Stream(stream) == nil {
			return "", fmt.Errorf("stream %q is not configured: with bus: these commands need the variables of bridge", stream)
		}
		if k.onBus = config.OfShare(onBus); k.onBus.Stream(stream) == nil {
			return "", fmt.Errorf("stream %q has no tables in share %s: type the command where another share is", stream, onBus.Share)
		}
		if k.copies, err = app.OpenCopies(ctx, onBus, s, log); err != nil {
			return "", err
		}
		defer func() { err = errors.Join(err, k.copies.Close()) }()
	}
	if k.image, err = s.Load(ctx); err != nil {
		return "", err
	}
	said, err = do(k)
	if err == nil {
		err = s.Sync(ctx)
	}
	if err == nil && k.copies != nil {
		err = k.copies.Write(ctx, stream)
	}
	return said, err
}

func noCheckpoint(path string) error {
	return fmt.Errorf("there is no checkpoint at %s: bridge has saved nothing there yet; see to BRIDGE_CHECKPOINT_URL, which is file:bridge.db when not set", path)
}

func unopened(err error) error {
	if errors.Is(err, store.ErrLocked) {
		return fmt.Errorf("%w (where that is bridge: stop bridge first; while it runs, /api/v1/status shows its positions)", err)
	}
	return err
}

// kindOf returns the kind of a stream by the store, else by the configuration; empty where neither
// knows it. It is an error where a command has to change the view of the stream, and the folder
// does not have it: a copy on the bus has none.
func (p *process) kindOf(ctx context.Context, k *kept, stream string) (kind event.Kind, err error) {
	if one := p.configured(stream); one != nil {
		kind = one.Kind
	}
	for key := range k.image.Shards {
		if key.Stream != stream {
			continue
		}
		m, err := store.LoadMeaning(ctx, k, key)
		if err != nil && !errors.Is(err, store.ErrDamaged) {
			return "", err
		}
		if m != nil {
			kind = event.Kind(m.Kind)
			break
		}
	}
	if k.copies == nil || kind == event.Release || slices.ContainsFunc(k.image.Registrations, func(r store.Registration) bool { return r.Stream == stream }) {
		return kind, nil
	}
	return "", fmt.Errorf("what was published last of each entity of the capability stream %q is not in the folder %s: run bridge once on a folder that stays, "+
		"with BRIDGE_CHECKPOINT_URL=bus:///<folder>, until it has caught up; stop it, type the command with that folder, and start bridge on it once more", stream, k.path)
}

// configured returns a stream of the configuration. It is nil where the environment has no such
// stream, or not all that bridge needs: these commands work without it.
func (e *environment) configured(stream string) *config.Stream {
	cfg, err := e.load()
	if err != nil {
		return nil
	}
	return config.OfShare(cfg).Stream(stream)
}

// misnamed refuses a table that the configuration, where there is one, does not name, and that has
// no checkpoint: nothing would go by it.
func (p *process) misnamed(k *kept, key store.Key) error {
	cfg, err := p.load()
	if err != nil || k.image.Shards[key].Started {
		return nil
	}
	if _, err := choose([]string{key.Stream}, cfg.StreamNames()); err != nil {
		return err
	}
	if s := cfg.Stream(key.Stream); !slices.Contains(s.Tables, key.Shard) && !cfg.Matched(s, key.Shard) {
		return usageErrorf("%sTABLE names no table %q: correct the name, or name the table there first", config.StreamPrefix(s.Name), key.Shard)
	}
	return nil
}

// shardsOf returns the shards that the store has of a stream; it may know the stream and none of
// them. It is an error where it does not know the stream.
func (k *kept) shardsOf(name string) ([]store.Key, error) {
	known := make(map[string][]store.Key)
	for _, r := range k.image.Registrations {
		known[r.Stream] = nil
	}
	for key := range k.image.Shards {
		if !stream.IsCommand(key.Shard) {
			known[key.Stream] = append(known[key.Stream], key)
		}
	}
	shards, found := known[name]
	switch {
	case found:
		return shards, nil
	case len(known) == 0:
		return nil, fmt.Errorf("stream %q has no checkpoint, nor has any other: a stream begins at its START, behind what the bus has of it", name)
	}
	return nil, fmt.Errorf("stream %q has no checkpoint: those that have one are %s", name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
}

type checkpointView struct {
	Stream  string       `json:"stream"`
	Shard   string       `json:"shard"`
	ID      uint64       `json:"id"`
	Gaps    []ledger.Gap `json:"gaps"`
	Offsets []offsetView `json:"marks"`
	Saved   time.Time    `json:"saved"`
	// Reconcile is null where none was ever begun.
	Reconcile *runView `json:"reconcile"`
}

// runView is how far a reconcile has come, or how the last one ended.
type runView struct {
	StartedAt null.Time `json:"startedAt"`
	// EndedAt is null while it is under way or waits to be resumed: it has compared After of the
	// ids up to Bound.
	EndedAt         null.Time `json:"endedAt"`
	After           uint64    `json:"after"`
	Bound           uint64    `json:"bound"`
	VerifiedThrough null.Time `json:"verifiedThrough"`
	Guard           null.Text `json:"guard"`
}

type offsetView struct {
	TP          string `json:"place"`
	Incarnation string `json:"incarnation,omitempty"`
	// Last is the highest offset up to which the checkpoint has everything.
	Last uint64 `json:"last"`
}

func viewOf(ctx context.Context, s store.Store, image *store.Image, key store.Key) (checkpointView, error) {
	state := image.Shards[key]
	view := checkpointView{
		Stream: key.Stream, Shard: key.Shard, ID: state.Position,
		Gaps: []ledger.Gap{}, Offsets: []offsetView{}, Saved: state.Saved.UTC(),
	}
	gaps, err := stream.LoadGaps(ctx, s, key, state.Position)
	if errors.Is(err, ledger.ErrDamaged) {
		return view, fmt.Errorf("read the gaps of %s %s: %w: bridge checkpoint set %s %s %d goes on without them",
			key.Stream, key.Shard, err, key.Stream, key.Shard, state.Position)
	}
	if err != nil {
		return view, err
	}
	for _, g := range gaps {
		g.Missed = g.Missed.UTC()
		view.Gaps = append(view.Gaps, g)
	}
	for _, r := range image.Registrations {
		if r.Stream == key.Stream && !r.Retired && r.Next > 0 {
			view.Offsets = append(view.Offsets, offsetView{r.TP, r.Incarnation, r.Next - 1})
		}
	}
	run, found, err := reconcile.LoadRun(ctx, s, key)
	if err != nil || !found {
		return view, err
	}
	view.Reconcile = &runView{
		StartedAt: null.At(run.Started), EndedAt: null.At(run.Ended), After: run.After, Bound: run.Bound,
		VerifiedThrough: null.At(run.Verified), Guard: null.Text(run.Guard),
	}
	return view, nil
}

func checkpointShow(p *process) *cobra.Command {
	c := newCommand("show", "show how far each shard has been published")
	asJSON := c.Flags().Bool("json", false, "print it as JSON, with the gaps")
	c.RunE = func(c *cobra.Command, _ []string) (err error) {
		s, err := p.openToShow(c.Context())
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		image, err := s.Load(c.Context())
		if err != nil {
			return err
		}
		views, rows := []checkpointView{}, [][]any{{"STREAM", "SHARD", "ID", "GAPS", "SAVED", "VERIFIED THROUGH", "RECONCILE"}}
		for _, key := range slices.SortedFunc(maps.Keys(image.Shards), store.Key.Compare) {
			if !image.Shards[key].Started {
				continue
			}
			v, err := viewOf(c.Context(), s, &image, key)
			if err != nil {
				return err
			}
			views = append(views, v)
			verified, state := v.Reconcile.words()
			rows = append(rows, []any{v.Stream, v.Shard, v.ID, len(v.Gaps), v.Saved.Format(time.RFC3339), verified, state})
		}
		text := terminal.Table(3, rows)
		if len(views) == 0 {
			text = "no shard has a checkpoint yet\n"
		}
		return p.show(*asJSON, map[string][]checkpointView{"checkpoints": views}, text)
	}
	return c
}

// openToShow opens the store without changing it. Where there is none, it has what is on the bus.
func (p *process) openToShow(ctx context.Context) (store.Store, error) {
	path, onBus, err := p.checkpoint()
	if err != nil {
		return nil, err
	}
	s, err := pebble.OpenReadOnly(ctx, path, pebble.Options{LockWait: lockWait})
	switch {
	case errors.Is(err, fs.ErrNotExist) && onBus == nil:
		return nil, noCheckpoint(path)
	case errors.Is(err, fs.ErrNotExist):
		return app.LoadCopies(ctx, onBus, p.newLogger(slog.LevelWarn, "console"))
	case err != nil:
		return nil, unopened(err)
	}
	return s, nil
}

// words says in short through when a shard is verified and how its reconcile stands.
func (r *runView) words() (verified, state string) {
	if r == nil {
		return "-", "none yet"
	}
	verified = "-"
	if !r.VerifiedThrough.IsZero() {
		verified = r.VerifiedThrough.UTC().Format(time.RFC3339)
	}
	switch {
	case r.EndedAt.IsZero():
		return verified, "to be resumed"
	case r.Guard != "":
		return verified, "deletes held back"
	}
	return verified, "ended " + r.EndedAt.UTC().Format(time.RFC3339)
}
