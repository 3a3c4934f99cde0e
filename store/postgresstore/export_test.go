package postgresstore

// Newest is the version of the tables that this program makes.
var Newest = len(steps)

// WithSteppedClock has the database's clock be set off by what the table stepped says, and its server be another one with
// each start that this table counts.
func WithSteppedClock() Option {
	return func(o *options) {
		o.clock = clock + " + (SELECT micros FROM stepped)"
		o.server = server + " || (SELECT start::text FROM stepped)"
	}
}
