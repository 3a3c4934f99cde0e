package mysqlstore

import (
	"reflect"
	"strings"
	"unsafe"

	"github.com/cronlease/cronlease/store/internal/sqlflaws"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/mysqlconn"
	"github.com/cronlease/cronlease/store/mysqlstore/internal/sqltext"
)

// about are the topics of the suites that are about some statements.
var about = []sqlflaws.Topics{
	{`^lease\.(acquire|takeReleased|handOver)`, "acquire,handover,signal,concurrency"},
	{`^lease\.insert`, "prepare"},
	{`^lease\.release|isReleased`, "release,handover"},
	{`^lease\.renew`, "renew"},
	{`^lease\.(ask|isAsked)`, "resign"},
	{`^lease`, "read"},
	{`^lock\.(prune|idle|sessions)`, "prune"},
	{`^lock\.(wait|notWaits)`, "notifier"},
	{`^lock`, "write,read,prune"},
	{`^fence\.(check|change)Run`, "spread"},
	{`^fence`, "fence"},
	{`^request`, "requests,changes"},
	{`^replica`, "replicas"},
	{`^archive\.(count|cut)`, "counts"},
	{`^archive\.newest`, "newest"},
	{`Term`, "terms,archive prune"},
	{`^archive\.(.*Audit|note|oldest|inAll)`, "audit,archive prune"},
	{`(?i)attempt`, "attempts,prune,cancel"},
	{`^ledger\.(newest|runs)`, "runs"},
	{`^ledger\.(bounds|keptFrom|prun|orphans)`, "prune"},
	{`^ledger\.(spread|openOf)`, "spread"},
	{`^ledger\.changes`, "changes"},
	{`^ledger\.(lockJobs|updateJobs|insertJobs)`, "pause,declare,replicas"},
	{`^ledger\.(lockRun|putRun)`, "cancel"},
	{`^ledger\.passOver`, "pass over,attempts"},
	{`^ledger\.forget`, "replicas,attempts"},
	{`^ledger\.(lockFence|writeFence)`, "pass over,declare"},
}

// statementsOf are the statements of a store, by their fields.
func statementsOf(s *Store) map[string]*sqltext.Query {
	all := map[string]*sqltext.Query{}
	for _, queries := range []any{s.leases.sql, s.ledger.sql, s.lockRows.sql, s.requests.sql, s.fences.sql, s.archive.sql, s.replicas.sql} {
		v := reflect.ValueOf(queries).Elem()
		for i := range v.NumField() {
			if v.Field(i).Type() == reflect.TypeFor[sqltext.Query]() {
				all[strings.TrimSuffix(v.Type().Name(), "Queries")+"."+v.Type().Field(i).Name] = (*sqltext.Query)(unsafe.Pointer(v.Field(i).UnsafeAddr()))
			}
		}
	}
	return all
}

// Flaws are all there are, in the order of their statements.
func Flaws() []sqlflaws.Flaw {
	texts := map[string]string{}
	for name, statement := range statementsOf(newStore(new(mysqlconn.Pool), "cronlease_")) {
		texts[name] = statement.String()
	}
	return sqlflaws.Of(texts, about)
}

// Break puts a flaw into the statements of a store.
func (s *Store) Break(f sqlflaws.Flaw) { *statementsOf(s)[f.Statement] = sqltext.Parse(f.Text) }
