package memstore_test

import (
	"testing"

	"github.com/cronlease/cronlease/store"
	"github.com/cronlease/cronlease/store/memstore"
)

// Optional parts of a store are found by type assertions, so one that is missing is an error nowhere else.
func TestStoreHasOptionalParts(t *testing.T) {
	t.Parallel()
	var db any = memstore.New()
	for name, has := range map[string]bool{
		"Archive": is[store.Archive](db), "Replicas": is[store.Replicas](db), "Heartbeats": is[store.Heartbeats](db), "RequestSignals": is[store.RequestSignals](db),
		"HandoverSignals": is[store.HandoverSignals](db), "Notifiers": is[store.Notifiers](db), "Locks": is[store.Locks](db),
	} {
		if !has {
			t.Errorf("memstore is no store.%s", name)
		}
	}
}

func is[T any](db any) bool {
	_, ok := db.(T)
	return ok
}
