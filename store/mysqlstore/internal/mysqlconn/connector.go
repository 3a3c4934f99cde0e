package mysqlconn

import (
	"context"
	"database/sql/driver"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"github.com/cronlease/cronlease/internal/tlsfiles"
)

// connector makes connections to one server. The password, and the files of
// TLS, are read for each connection, so that they may be replaced at any time.
type connector struct {
	config   *mysql.Config
	password func(context.Context) (string, error)
	tls      tlsfiles.Files
	logins   *logins
}

var _ driver.Connector = (*connector)(nil)

// connector returns one for connections with these settings.
func (t *Target) connector(config *mysql.Config, l *logins) (*connector, error) {
	c := &connector{config: config, password: t.password, tls: t.tls, logins: l}
	if _, err := mysql.NewConnector(config); err != nil {
		return nil, fmt.Errorf("mysqlstore: DSN: %w", errCollation)
	}
	return c, nil
}

// Driver implements [driver.Connector].
func (c *connector) Driver() driver.Driver { return &mysql.MySQLDriver{} }

// Connect implements [driver.Connector].
func (c *connector) Connect(ctx context.Context) (conn driver.Conn, err error) {
	// The driver's own timeout is only for the dialling, and the pool has
	// connects that no caller waits for.
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	err = c.logins.connect(ctx, c.password, func(ctx context.Context, password string) error {
		config := c.config.Clone()
		config.Passwd = password
		if c.tls.Given() {
			if config.TLS, err = c.tls.Config(); err != nil {
				return err
			}
		}
		h := hearingOf(ctx)
		if h.silence > 0 && config.Net == "tcp" {
			config.DialFunc = h.dial(config.DialFunc)
		}
		one, err := mysql.NewConnector(config)
		if err != nil {
			return err
		}
		conn, err = one.Connect(ctx)
		if err != nil && !isUnreached(err) && !IsServerError(err) {
			h.reached.Store(true)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return conn, nil
}
