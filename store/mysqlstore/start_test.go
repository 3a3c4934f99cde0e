package mysqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cronlease/cronlease/election"
	"github.com/cronlease/cronlease/internal/dbtest"
	"github.com/cronlease/cronlease/internal/keeper"
	"github.com/cronlease/cronlease/lease"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

// A replica that starts while its database is not ready leads once it is.
func TestStartBeforeTheDatabaseIsReady(t *testing.T) {
	t.Parallel()
	for _, kind := range dbtest.Dialects(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := dbtest.Private(t, kind, "--max-connections=10")
			for _, test := range []struct {
				name string
				// start makes the database unready and returns how it becomes ready.
				start func(t *testing.T, db dbtest.Database) (dsn string, ready func())
			}{
				{"read-only", func(t *testing.T, db dbtest.Database) (string, func()) {
					migrated(t, db.DSN)
					root := conn(t, db.Open(t))
					exec(t, root, "SET GLOBAL read_only = ON")
					return db.DSN, func() { exec(t, root, "SET GLOBAL read_only = OFF") }
				}},
				{"no tables", func(t *testing.T, db dbtest.Database) (string, func()) {
					return db.DSN, func() { migrated(t, db.DSN) }
				}},
				{"no grants", func(t *testing.T, db dbtest.Database) (string, func()) {
					user := uniqueName("late")
					dsn := userDSN(t, db, user, "SELECT ON @.*")
					return dsn, func() {
						migrated(t, db.DSN)
						exec(t, db.Open(t), "GRANT ALL ON "+db.Config(t).DBName+".* TO '"+user+"'@'%'")
					}
				}},
				{"too many connections", func(t *testing.T, db dbtest.Database) (string, func()) {
					migrated(t, db.DSN)
					user := uniqueName("crowd")
					dsn := userDSN(t, db, user, "ALL ON @.*")
					crowd := openSQL(t, dsn)
					var taken []*sql.Conn
					for {
						c, err := crowd.Conn(soon(t))
						if err != nil {
							return dsn, func() {
								for _, c := range taken {
									_ = c.Close()
								}
								_ = crowd.Close()
							}
						}
						taken = append(taken, c)
					}
				}},
			} {
				t.Run(test.name, func(t *testing.T) {
					db := dbtest.FreshOn(t, server.Kind(), server.DSN(""))
					dsn, ready := test.start(t, db)
					s := open(t, dsn)
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					led, ended, logs := campaign(ctx, s)
					eventually(t, "a line in the log", func() bool { return logs.Len() > 0 })
					select {
					case err := <-ended:
						t.Fatalf("the campaign ended: %v", err)
					case <-time.After(time.Second): // for a campaign that goes on, nothing happens
					}
					if n := logs.FilterLevelExact(zapcore.WarnLevel).Len(); n != 1 {
						t.Errorf("%d lines: %v", n, logs.All())
					}
					ready()
					select {
					case <-led:
					case err := <-ended:
						t.Fatalf("the campaign ended: %v", err)
					case <-ctx.Done():
						t.Fatalf("does not lead: %v", logs.All())
					}
					cancel()
					if err := <-ended; err != nil {
						t.Error(err)
					}
				})
			}
		})
	}
}

// campaign has a replica contend until ctx ends. led is closed when it leads, and
// ended gets what the campaign came to.
func campaign(ctx context.Context, s *mysqlstore.Store) (led <-chan struct{}, ended <-chan error, logs *observer.ObservedLogs) {
	leads, ends := make(chan struct{}), make(chan error, 1)
	core, logs := observer.New(zapcore.InfoLevel)
	go func() {
		ends <- election.Run(ctx, s, "g", func(ctx context.Context, _ election.Term) error {
			close(leads)
			<-ctx.Done()
			return nil
		}, election.WithLogger(zap.New(core)))
	}()
	return leads, ends, logs
}

// What waiting cannot mend ends a campaign.
func TestUnfitDatabaseEndsTheCampaign(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db dbtest.Database) {
		s := migrated(t, db.DSN)
		exec(t, s.DB(), "UPDATE cronlease_schema SET version = version + 100 ORDER BY version DESC")
		err := election.Run(soon(t), s, "g", func(context.Context, election.Term) error { return nil })
		if !keeper.Ends(err) || errors.Is(err, lease.ErrNotReady) {
			t.Errorf("tables of a newer program: %v", err)
		}
	})
}
