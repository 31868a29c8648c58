package mysql

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/go-sql-driver/mysql"

	"bridge/source"
)

// connector opens connections whose sessions are as the package promises.
type connector struct {
	driver.Connector
	options Options
	addr    string
	// isolation is what the sessions see of other transactions.
	isolation string
	// hasty says that the sessions do not wait for the locks of tables.
	hasty  bool
	server *atomic.Pointer[server]
	// started is when the server was started that was connected to last, in Unix seconds; 0 where
	// it does not tell.
	started *atomic.Int64
}

// server is what a session learned about its server and login.
type server struct {
	// version is what VERSION() says.
	version string
	// account is the login as the server's grants name it.
	account string
	// packet is max_allowed_packet: the most bytes that a statement may have.
	packet int
	// identity is the SQL that tells servers apart, a list of expressions.
	identity string
	// waiting is how to have a read show what other members have committed; zero where there are
	// none.
	waiting waiting
}

func (s server) isMariaDB() bool { return strings.Contains(s.version, "MariaDB") }

func newConnector(o Options) (*connector, error) {
	cfg := o.driverConfig()
	if err := cfg.Apply(mysql.BeforeConnect(func(_ context.Context, c *mysql.Config) error { return o.secure(c) })); err != nil {
		return nil, err
	}
	base, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return &connector{Connector: base, options: o, addr: cfg.Addr, isolation: "READ COMMITTED", server: new(atomic.Pointer[server]),
		started: new(atomic.Int64)}, nil
}

// secure puts into c what may have changed since the last connect: the password and the
// certificates.
func (o Options) secure(c *mysql.Config) (err error) {
	if o.Password != nil {
		if c.Passwd, err = o.Password(); err != nil {
			return fmt.Errorf("read the password: %w", err)
		}
	}
	if o.TLS != nil {
		if c.TLS, err = o.TLS(); err != nil {
			return fmt.Errorf("read the certificates: %w", err)
		}
		c.TLS.ServerName = cmp.Or(c.TLS.ServerName, o.Host)
	}
	return nil
}

// uncommitted returns a connector like c whose sessions see the rows of open transactions.
func (c *connector) uncommitted() *connector {
	dirty := *c
	dirty.isolation = "READ UNCOMMITTED"
	return &dirty
}

// brief returns a connector like c whose statements are short, and wait for no table that is
// locked.
func (c *connector) brief() *connector {
	brief := *c
	brief.hasty = true
	brief.options.StatementTimeout = min(headTimeout, c.options.StatementTimeout)
	return &brief
}

var (
	errLogin     = errors.New("the server was reached but did not finish the login in time")
	errNoVersion = errors.New("the server does not say which version it is")
)

// Connect opens a connection and sets up its session.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 3*c.options.DialTimeout, errLogin)
	defer cancel()
	opened, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, named(ctx, err)
	}
	if err := c.setUp(ctx, conn{opened.(rawConn)}); err != nil {
		// The first error tells more than what closing says.
		_ = opened.Close()
		return nil, named(ctx, fmt.Errorf("set up the session: %w", err))
	}
	return opened, nil
}

func (c *connector) setUp(ctx context.Context, session conn) error {
	// First of all: what is asked below is cut by these, too.
	for _, statement := range []string{"SET NAMES utf8mb4", "SET SESSION TRANSACTION ISOLATION LEVEL " + c.isolation} {
		// The isolation level has a statement because the variable's name differs between servers.
		if err := session.exec(ctx, statement); err != nil {
			return describe(statement, err)
		}
	}
	isFirst := c.server.Load() == nil
	if err := c.set(ctx, session, plainSettings(), isFirst); err != nil {
		return err
	}
	var found server
	var malformed error
	err := session.query(ctx, "SELECT VERSION() AS version, CURRENT_USER() AS account, @@max_allowed_packet AS packet", func(get func(string) string) {
		found = server{version: get("version"), account: get("account")}
		found.packet, malformed = strconv.Atoi(get("packet"))
	})
	if err = errors.Join(err, malformed); err != nil {
		return err
	}
	if found.version == "" {
		return errNoVersion
	}
	if err := c.set(ctx, session, productSettings(found, c.options), isFirst); err != nil {
		return err
	}
	if found.identity, err = identify(ctx, session, found); err != nil {
		return err
	}
	if found.waiting, err = queryWaiting(ctx, session); err != nil {
		return err
	}
	if err := noteUptime(ctx, session, c.started); err != nil {
		return err
	}
	first := c.server.Swap(&found) == nil
	// Invariant 8: the server refuses a write even if the login could write.
	optional := []string{"SET SESSION TRANSACTION READ ONLY"}
	if c.hasty {
		optional = append(optional, "SET SESSION lock_wait_timeout = 1")
	}
	return c.trySet(ctx, session, optional, first)
}

// role is the part of an identity that says whether the server is read-only. Newer servers have
// more words for it than ON.
const role = ", IF(@@GLOBAL.read_only IN ('0', 'OFF'), NULL, '" + source.ReadOnly + "')"

// identify returns the best identity that the server has. MariaDB has no @@server_uuid, a
// compatible server may lack any. A server that becomes read-only becomes another one: what was
// found out about the writer does not hold for a replica.
func identify(ctx context.Context, session conn, s server) (string, error) {
	candidates := []string{"@@server_uuid", "@@hostname, @@port, @@server_id", "@@hostname"}
	if s.isMariaDB() {
		candidates = candidates[1:]
	}
	for _, candidate := range candidates {
		for _, expressions := range []string{candidate + role, candidate} {
			err := session.query(ctx, "SELECT "+expressions, func(func(string) string) {})
			if number(err) == 0 {
				return expressions, err
			}
		}
	}
	return "'unknown'", nil
}

// Print writes a line of the driver.
func (l debugLogger) Print(v ...any) { l.logger.Debug("mysql driver", "message", fmt.Sprint(v...)) }
