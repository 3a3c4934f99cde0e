package mysqlconn

import (
	"context"
	"database/sql"

	"github.com/go-sql-driver/mysql"
)

// Parsed returns the settings and hosts of a DSN.
func (t *Target) Parsed() (*mysql.Config, []string) { return t.config, t.hosts }

// NewServer is one with these variables.
func NewServer(variables map[string]string) *Server { return &Server{variables: variables} }

// Started is the second in which the connection's server was started.
func Started(ctx context.Context, conn *sql.Conn) (uint64, error) {
	var version string
	if err := conn.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return 0, err
	}
	s := Server{variables: map[string]string{"version": version}}
	return s.readStart(ctx, conn)
}

// Settle returns how the connects of a pool with several hosts agree on one.
func Settle(addrs ...string) (next func(tried []bool) int, settle func(host int, tried []bool) bool) {
	h := newHosts(addrs)
	return h.next, h.settle
}

// Logins is what holds back connects after a refused login.
type Logins struct{ *logins }

// NewLogins returns one that no login was refused of yet.
func NewLogins() Logins { return Logins{newLogins()} }

// Connect calls dial with the password, or returns the error of an earlier login.
func (l Logins) Connect(ctx context.Context, password string, dial func() error) error {
	return l.connect(ctx, func(context.Context) (string, error) { return password, nil }, func(context.Context, string) error { return dial() })
}

// Nameless has the pool find a session whose login had no answer, made from that port. It returns the lock that the
// session would have got.
func (p *Pool) Nameless(ctx context.Context, port string) (lock string, find func() error) {
	s := newSession(port)
	return s.lock(), func() error {
		p.watch.add(s)
		return p.watch.await(ctx, s)
	}
}
