package page

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/cronlease/cronlease/locks"
)

// locksData is what locks.html gets.
type locksData struct {
	Notes []note
	Locks []lockRow
	Empty string
	Pager pager
}

// lockRow is a lock with those that hold it and wait for it.
type lockRow struct {
	Name   string
	Places []placeRow
}

type placeRow struct {
	Place, Mode         string
	Owner, Short, Label string
	Token               string
	Since, Until        moment
	Expired             bool
}

// perLocks is how many locks a page has.
const perLocks = 100

// maxPlaces is how many waiters are shown of one lock.
const maxPlaces = 50

// locks shows who holds the locks of the database, and who waits for them.
func (p *Page) locks(r *http.Request) (shown, error) {
	query := r.URL.Query()
	after := query.Get("after")
	found, err := optional(p.source.Locks(r.Context(), after, perLocks+1))
	if err != nil {
		return shown{}, err
	}
	changes, err := p.source.Changes(r.Context())
	if err != nil {
		return shown{}, err
	}
	now := changes.Now.UTC()
	data := locksData{Empty: "No lock is held or waited for."}
	if after != "" {
		data.Pager.Newer, data.Pager.NewerText = "locks", "First"
		data.Empty = "There are no locks behind that name."
	}
	for _, lock := range found[:min(len(found), perLocks)] {
		row := lockRow{Name: visible(lock.Name)}
		if lock.Err != nil {
			data.Notes = append(data.Notes, badNote(visible(lock.Err.Error())))
			row.Places = []placeRow{{Place: "cannot be read"}}
		}
		for i, place := range append(lock.Holders[:len(lock.Holders):len(lock.Holders)], lock.Waiting...) {
			if i == maxPlaces {
				row.Places = append(row.Places, placeRow{Place: "and " + count(len(lock.Holders)+len(lock.Waiting)-i) + " more"})
				break
			}
			row.Places = append(row.Places, placeOf(lock, place, i-len(lock.Holders)+1))
		}
		data.Locks = append(data.Locks, row)
	}
	if len(found) > perLocks {
		data.Pager.Older, data.Pager.OlderText = "locks?"+url.Values{"after": {found[perLocks-1].Name}}.Encode(), "On"
	}
	return shown{title: "Locks", template: "locks.html", data: data, now: now}, nil
}

// placeOf is a holder, or the nth waiter.
func placeOf(lock locks.Info, of locks.Place, nth int) placeRow {
	row := placeRow{Place: "holds", Mode: "write", Owner: visible(of.Owner), Short: visible(shortOwner(of.Owner)), Label: visible(of.Label)}
	if of.Read {
		row.Mode = "read"
	}
	if of.Token > 0 {
		row.Token = strconv.FormatUint(of.Token, 10)
	} else {
		row.Place = "waits, number " + strconv.Itoa(nth)
	}
	row.Since, row.Until = moment{lock.Now, of.Since}, moment{lock.Now, of.Until}
	if !of.Held.IsZero() {
		row.Since = moment{lock.Now, of.Held}
	}
	row.Expired = !of.Until.IsZero() && of.Until.Before(lock.Now)
	return row
}
