package postgresstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/cronlease/cronlease/internal/plainfile"
)

// own are the parameters of a URL that are the store's.
type own struct {
	passwordFile string
	poolSize     int
}

// ofLibpq are parameters as other stores have them, with what libpq calls them.
var ofLibpq = map[string]string{"ca": "sslrootcert", "cert": "sslcert", "key": "sslkey", "tls": "sslmode", "socket": "host, with the socket's folder"}

// parse reads a URL, or keywords and values. Its errors have no password.
func parse(dsn string) (*pgx.ConnConfig, own, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, own{}, err
	}
	o, err := takeOwn(config)
	return config, o, err
}

// takeOwn takes the store's parameters out of those that pgx would send to the server.
func takeOwn(config *pgx.ConnConfig) (own, error) {
	o := own{poolSize: 32}
	for name, value := range config.RuntimeParams {
		switch name {
		case "password_file":
			if o.passwordFile = value; value == "" {
				return o, errors.New("password_file: expected the path of a file")
			}
			if config.Password != "" {
				return o, errors.New("a password (of the URL, PGPASSWORD or a passfile) and a password_file: remove one of them")
			}
		case "pool_size":
			var err error
			if o.poolSize, err = strconv.Atoi(value); err != nil || o.poolSize < 1 {
				return o, fmt.Errorf("pool_size=%q: expected a number from 1", value)
			}
		default:
			if is := ofLibpq[name]; is != "" {
				return o, fmt.Errorf("unknown parameter %s: expected %s", name, is)
			}
			continue
		}
		delete(config.RuntimeParams, name)
	}
	return o, nil
}

// login reads the password for each connection.
func (o own) login() stdlib.OptionOpenDB {
	return stdlib.OptionBeforeConnect(func(_ context.Context, c *pgx.ConnConfig) (err error) {
		if o.passwordFile == "" {
			return nil
		}
		if c.Password, err = plainfile.Text(o.passwordFile, plainfile.MostSecret); err != nil {
			return fmt.Errorf("read the password: %w", err)
		}
		return nil
	})
}
