package mysqlconn

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

const (
	// defaultPoolSize is how many connections DB has if the DSN does not say, and
	// poolIdle how long each is kept without work.
	defaultPoolSize = 32
	poolIdle        = time.Minute
)

// Open returns connections to where the DSN leads. It dials nothing. With a function
// password, that is asked for the password of each connection.
func (t *Target) Open(password func(context.Context) (string, error)) (*Pool, error) {
	c := t.config
	if password != nil {
		if c.Passwd != "" || t.fromFile {
			return nil, errors.New("mysqlstore: a password in the DSN and WithPassword: remove one of them")
		}
		t.password = password
	}
	p := newPool(fmt.Sprintf("%s@%s(%s)/%s", c.User, c.Net, strings.Join(t.hosts, ","), c.DBName))
	connect := func(config *mysql.Config) (driver.Connector, error) { return t.connector(config, p.logins) }
	if len(t.hosts) > 1 {
		several := newHosts(t.hosts)
		connect = func(config *mysql.Config) (driver.Connector, error) { return several.connector(t, config) }
	}
	forPool, err := connect(poolConfig(c))
	if err != nil {
		return nil, err
	}
	forLanes, err := connect(laneConfig(c))
	if err != nil {
		return nil, err
	}
	p.db, p.source = sql.OpenDB(forPool), sql.OpenDB(forLanes)
	p.hosts, _ = forLanes.(*hostConnector)
	size := t.poolSize
	if size == 0 {
		size = defaultPoolSize
	}
	p.db.SetMaxOpenConns(size)
	// All of them stay for the next work that comes at once, and none for long.
	p.db.SetMaxIdleConns(size)
	p.db.SetConnMaxIdleTime(poolIdle)
	p.owned, p.several = true, len(t.hosts) > 1
	return p, nil
}
