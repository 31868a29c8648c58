package testenv

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"
)

// natsPassword is the login of NATSPassword.
type natsPassword struct {
	mu             sync.Mutex
	user, password string
}

func (p *natsPassword) get() (user, password string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.user, p.password
}

func (p *natsPassword) line() string {
	user, password := p.get()
	return fmt.Sprintf("authorization { user: %q, password: %q, timeout: 60 }", user, password)
}

// SetPassword gives the user of NATSPassword another password.
func (s *NATSServer) SetPassword(t testing.TB, password string) {
	t.Helper()
	if s.config == nil || s.config.password == nil {
		t.Fatal("SetPassword wants a server of StartNATS with the option NATSPassword")
	}
	login := s.config.password
	user, former := login.get()
	login.mu.Lock()
	login.password = password
	login.mu.Unlock()
	check(t, s.config.write())
	if !s.running() || former == password {
		return
	}
	s.signal(syscall.SIGHUP)
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	if err := poll(ctx, func() error { return s.refuses(user, former) }); err != nil {
		t.Fatalf("%v\n%s", err, s.tail())
	}
}

// refuses returns nil when the server does not let a login in.
func (s *NATSServer) refuses(user, password string) error {
	nc, err := nats.Connect(s.url.String(), append(s.config.login[:len(s.config.login):len(s.config.login)],
		nats.UserInfoHandler(nil), nats.UserInfo(user, password))...)
	switch {
	case err == nil:
		nc.Close()
		return errors.New("the server still takes the former password")
	case errors.Is(err, nats.ErrAuthorization):
		return nil
	}
	return err
}
