// Command gorm is a job that writes with GORM, in a transaction that is stored
// only while its replica leads.
//
//	go run . 'user:pass@tcp(127.0.0.1:3306)/app'
package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.uber.org/zap"
	"gorm.io/driver/mysql"
	"gorm.io/gorm"

	"github.com/cronlease/cronlease/fence"
	"github.com/cronlease/cronlease/jobs"
	"github.com/cronlease/cronlease/scheduler"
	"github.com/cronlease/cronlease/store/mysqlstore"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gorm DSN")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	logger := zap.Must(zap.NewProduction())
	db, err := gorm.Open(mysql.Open(os.Args[1]))
	if err == nil {
		err = run(ctx, db, logger)
	}
	if err != nil {
		logger.Fatal("gorm", zap.Error(err))
	}
}

func run(ctx context.Context, db *gorm.DB, logger *zap.Logger) error {
	pool, err := db.DB()
	if err != nil {
		return err
	}
	store, err := mysqlstore.New(pool)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := store.Migrate(ctx); err != nil {
		return err
	}
	s, err := scheduler.New(store, "billing", scheduler.WithLogger(logger))
	if err != nil {
		return err
	}
	dunning := &Dunning{db: db}
	if err := s.Add(jobs.Job{Name: "dunning", Schedule: jobs.Every(time.Second), Timeout: time.Minute, Do: dunning.Do}); err != nil {
		return err
	}
	return s.Run(ctx)
}

// Invoice is a row of the table invoices.
type Invoice struct {
	ID       int64
	Amount   int64
	Reminded bool
}

// Reminder is a row of the table reminders.
type Reminder struct {
	ID      int64
	Invoice int64 `gorm:"uniqueIndex"`
	Token   uint64
}

// Dunning reminds of invoices that are not paid.
type Dunning struct{ db *gorm.DB }

// within returns db bound to a transaction that its caller begins and ends.
func within(ctx context.Context, db *gorm.DB, tx *sql.Tx) *gorm.DB {
	// GORM would put each write into a transaction of its own.
	session := db.Session(&gorm.Session{NewDB: true, Context: ctx, SkipDefaultTransaction: true})
	session.Statement.ConnPool = tx
	return session
}

// Do notes a reminder for each open invoice, all of them or none.
func (d *Dunning) Do(ctx context.Context, run jobs.Run) error {
	pool, err := d.db.DB()
	if err != nil {
		return err
	}
	return fence.Do(ctx, pool, func(tx *sql.Tx) error {
		db := within(ctx, d.db, tx)
		var open []Invoice
		if err := db.Where("NOT reminded").Find(&open).Error; err != nil {
			return err
		}
		for _, invoice := range open {
			if err := db.Model(&invoice).Update("reminded", true).Error; err != nil {
				return err
			}
			if err := db.Create(&Reminder{Invoice: invoice.ID, Token: run.Token}).Error; err != nil {
				return err
			}
		}
		return nil
	})
}
