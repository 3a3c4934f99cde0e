// Package page serves a group of jobs over HTTP: a page for people, with its actions, the
// same as JSON, and the endpoints for probes.
//
//	p, err := page.New(s, store)
//	mux.Handle("/cron/", http.StripPrefix("/cron", p))
//	mux.Handle("/healthz", page.Healthz(s))
//	mux.Handle("/readyz", page.Readyz(s))
//
// Mount it below any path that ends in a slash: all its links are relative. It needs no
// script but its own, loads nothing from another host, and is readable without a script.
//
// # Who may see it
//
// It is closed by default. Without [WithAuth] it answers only clients of this machine
// that reach it directly, and these may do everything. With it, the function decides for
// each request which [User] it comes from, and the user's [Role] what that one may do.
//
// In any case it answers only requests for a host that it knows ([WithHosts]), so that
// no foreign page can reach it under a name of its own, and refuses actions that a page of
// another origin asks for. Its Content-Security-Policy allows neither inline scripts nor inline
// styles.
//
// # What it costs
//
// Without a request it does nothing and reads nothing. However many clients follow
// its events, one reader looks at the database once a second for all of them. Answers
// that several clients want within a second are read once.
package page
