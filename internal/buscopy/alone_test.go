package buscopy_test

import (
	"testing"
	"testing/synctest"

	"example.org/bridge/internal/buscopy"
	"example.org/bridge/internal/share"
	"example.org/bridge/tests/must"
	"example.org/bridge/tests/script"
)

func joined(t *testing.T, f *fleet, of share.Share) *buscopy.Generations {
	t.Helper()
	g := buscopy.NewGenerations(buscopy.GenerationsOptions{Bucket: f.bucket, Domain: "d", Share: of, Host: "h"})
	must.OK(t, g.Join(t.Context()))
	return g
}

// lives are what processes of two shares do, a step each: "join a 0" begins the process a of share
// 0, which reads who was there before by "former a", or once it is elected by "turn a", and enters
// with an epoch. It is alone then or not.
var lives = map[string]string{
	"behind a former one, which is not": "join a 0; join p 1; former a; former p; enter p 99; not a; enter a 5; alone a; join b 0; former b; enter b 6; " +
		"not a; alone b; alone p; former b; join c 0; former c; enter c 7; not b; alone c",
	"neither of two that begin at the same time":        "join a 0; join b 0; former a; former b; enter a 5; former b; enter b 6; not a; not b",
	"nor of two that have one epoch":                    "join a 0; join b 0; former a; former b; enter a 8; enter b 8; not a; not b",
	"not behind one whose epoch is higher":              "join a 0; join b 0; former a; enter a 9; former b; enter b 6; not b",
	"one that is elected knows who had entered by then": "join a 0; join b 0; former a; former b; enter b 5; turn a; enter a 6; alone a; not b",
	"one that is elected behind one that another one had followed": "join a 0; join b 0; join c 0; former a; turn b; enter b 2; permit a; turn c; " +
		"enter c 4; turn a; enter a 6; alone a; not c",
	"not by a former number": "join a 0; former a; enter a 5; put d.-shares.n2.3.token; not a",
}

// TestAlone: a process is alone unless another one of its share has entered since it began, or one
// before it with a higher epoch, or another number of shares is proposed.
func TestAlone(t *testing.T) {
	t.Parallel()
	for name, life := range lives {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, processes := newFleet(t), make(map[string]*buscopy.Generations)
				p := script.Player{TB: t}
				p.Play(life, func(name string, words []string) bool {
					g, err := processes[words[0]], error(nil)
					switch name {
					case "join":
						processes[words[0]] = joined(t, f, share.Share{Index: int(p.Number(words[1])), Number: 2})
					case "former", "turn":
						err = g.ReadFormer(t.Context(), name == "turn")
					case "enter":
						err = g.Enter(t.Context(), p.Number(words[1]))
					case "permit":
						err = g.Permit(t.Context())
					case "put":
						err = f.bucket.Put(t.Context(), words[0], nil)
					case "alone", "not":
						var alone bool
						alone, err = g.Alone(t.Context())
						p.Want(alone, name == "alone")
					default:
						return false
					}
					if err != nil {
						t.Errorf("%s: %v", p.Step, err)
					}
					return true
				})
			})
		})
	}
	t.Run("a process without shares leaves nothing", func(t *testing.T) {
		f := newFleet(t)
		joined(t, f, share.Share{Number: 2}).Leave()
		before := f.bucket.Puts()
		none := joined(t, f, share.Share{})
		proposed := f.bucket.Puts()
		if err := none.Enter(t.Context(), 7); err != nil || none.Joined() == 0 || proposed == before || f.bucket.Puts() != proposed {
			t.Errorf("it has joined generation %d, and puts %d entries where it enters: %v", none.Joined(), f.bucket.Puts()-proposed, err)
		}
	})
}
