package mysqlconn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cronlease/cronlease/internal/plainfile"
	"github.com/cronlease/cronlease/internal/spelling"
	"github.com/cronlease/cronlease/internal/tlsfiles"
)

// maxPoolSize bounds the parameter pool_size.
const maxPoolSize = 10_000

// ownParameters are read here, and not by the driver.
var ownParameters = []string{"ca", "cert", "charset", "key", "password_file", "pool_size", "server_name", "socket"}

// driverParameters are the driver's.
var driverParameters = []string{
	"allowAllFiles", "allowCleartextPasswords", "allowFallbackToPlaintext", "allowNativePasswords", "allowOldPasswords",
	"checkConnLiveness", "clientFoundRows", "collation", "columnsWithAlias", "compress", "connectionAttributes",
	"interpolateParams", "loc", "maxAllowedPacket", "multiStatements", "parseTime", "readTimeout", "rejectReadOnly",
	"serverPubKey", "strict", "timeTruncate", "timeout", "tls", "writeTimeout",
}

// sessionVariables may be set for the connections of Store.DB. Those that would
// undo what the store sets, or change how a statement is read, are not among
// them.
var sessionVariables = []string{
	"autocommit", "cte_max_recursion_depth", "default_week_format", "div_precision_increment", "foreign_key_checks",
	"group_concat_max_len", "idle_transaction_timeout", "innodb_lock_wait_timeout", "innodb_snapshot_isolation",
	"interactive_timeout", "join_buffer_size", "lc_time_names", "lock_wait_timeout", "long_query_time", "max_execution_time",
	"max_heap_table_size", "max_join_size", "max_recursive_iterations", "max_statement_time", "net_read_timeout",
	"net_write_timeout", "optimizer_switch", "read_buffer_size", "sort_buffer_size", "sql_mode", "sql_safe_updates",
	"sql_select_limit", "time_zone", "tmp_table_size", "transaction_isolation", "tx_isolation", "unique_checks",
	"wait_timeout", "wsrep_sync_wait",
}

// otherNames are what other clients call a parameter.
var otherNames = map[string]string{
	"sslmode": "tls", "usessl": "tls", "ssl": "tls", "sslca": "ca", "sslrootcert": "ca", "tlsca": "ca", "cafile": "ca",
	"sslcert": "cert", "clientcert": "cert", "sslkey": "key", "clientkey": "key", "servername": "server_name", "sni": "server_name",
	"unixsocket": "socket", "passwordfile": "password_file", "passfile": "password_file", "characterencoding": "charset",
	"encoding": "charset", "maxopenconns": "pool_size", "maxconnections": "pool_size", "connecttimeout": "timeout",
	"maxallowedpackets": "maxAllowedPacket",
}

// own is what the parameters of the store say.
type own struct {
	tls          tlsfiles.Files
	charsets     []string
	passwordFile string
	socket       string
	poolSize     int
	names        []string // of all other parameters
}

// takeOwn returns the DSN without the store's own parameters, and what they say.
// A path needs no percent-encoding in them.
func takeOwn(dsn string, isURL bool) (rest string, o own, err error) {
	head, parameters, tail := splitParameters(dsn, isURL)
	if parameters == "" {
		return dsn, o, nil
	}
	var others []string
	for parameter := range strings.SplitSeq(parameters, "&") {
		name, value, _ := strings.Cut(parameter, "=")
		if !slices.Contains(ownParameters, name) {
			others = append(others, parameter)
			o.names = append(o.names, name)
			continue
		}
		value, err := url.QueryUnescape(value)
		if err != nil || value == "" || !o.set(name, value) {
			return "", o, fmt.Errorf("the value of %s is not understood", name)
		}
	}
	if o.socket != "" && !isURL {
		return "", o, errors.New("socket is for a URL: write user:password@unix(/path)/database")
	}
	if len(others) > 0 {
		head += "?" + strings.Join(others, "&")
	}
	return head + tail, o, nil
}

func (o *own) set(name, value string) bool {
	switch name {
	case "ca":
		o.tls.CA = value
	case "cert":
		o.tls.Cert = value
	case "key":
		o.tls.Key = value
	case "server_name":
		o.tls.ServerName = value
	case "charset":
		o.charsets = strings.Split(value, ",")
	case "password_file":
		o.passwordFile = value
	case "socket":
		o.socket = value
	case "pool_size":
		n, err := strconv.Atoi(value)
		o.poolSize = n
		return err == nil && n > 0 && n <= maxPoolSize
	}
	return true
}

// splitParameters finds the parameters of a DSN: a URL's begin at its first ?,
// those of the driver's form after the last / before the name of the database.
// Paths in them may have / themselves, so the ) of the address is looked for,
// unless it may be a part of a password.
func splitParameters(dsn string, isURL bool) (head, parameters, tail string) {
	if isURL {
		if i := strings.IndexByte(dsn, '#'); i >= 0 {
			dsn, tail = dsn[:i], dsn[i:]
		}
		head, parameters, _ = strings.Cut(dsn, "?")
		return head, parameters, tail
	}
	slash := strings.LastIndex(dsn, ")/") + 1
	if slash == 0 || strings.ContainsAny(dsn[slash:], "@(") {
		slash = max(0, strings.LastIndexByte(dsn, '/'))
	}
	database, parameters, _ := strings.Cut(dsn[slash:], "?")
	return dsn[:slash] + database, parameters, ""
}

// wordRule is what the name of a parameter looks like. One that does not may be
// a part of a password.
var wordRule = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,40}$`)

// checkNames refuses parameters that are not known. The driver would make SET
// statements of them, which fail at each connect, or set what must not be set.
func checkNames(names []string) error {
	for _, name := range names {
		if slices.Contains(driverParameters, name) || slices.Contains(sessionVariables, strings.ToLower(name)) {
			continue
		}
		if !wordRule.MatchString(name) {
			return errors.New("the name of a parameter is not understood: want " + dsnForm)
		}
		known := slices.Concat(ownParameters, driverParameters, sessionVariables)
		plain := strings.NewReplacer("_", "").Replace(strings.ToLower(name))
		if same, ok := otherNames[plain]; ok {
			return fmt.Errorf("unknown parameter %s: did you mean %s?", name, same)
		}
		for _, other := range known {
			if strings.EqualFold(strings.ReplaceAll(other, "_", ""), plain) {
				return fmt.Errorf("unknown parameter %s: did you mean %s?", name, other)
			}
		}
		if near := spelling.Near(known, name); len(near) > 0 {
			return fmt.Errorf("unknown parameter %s: did you mean %s?", name, strings.Join(near, " or "))
		}
		return fmt.Errorf("unknown parameter %s: want one of github.com/go-sql-driver/mysql, %s, or a session variable that docs/database.md lists",
			name, strings.Join(ownParameters, ", "))
	}
	return nil
}

// valueRule is what the value of a session variable looks like: a number, a word,
// or a string without anything that could end it.
var valueRule = regexp.MustCompile(`^(-?[0-9]+(\.[0-9]+)?|[A-Za-z][A-Za-z0-9_]*|'[A-Za-z0-9_ ,=+:./-]*')$`)

// checkValues refuses values of session variables that are more than a value. The
// driver writes them into a SET statement as they are, where a comma begins the
// next variable, which may be any.
func checkValues(values map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !valueRule.MatchString(values[name]) {
			return fmt.Errorf("the value of %s is not understood: want a number, a word such as ON or DEFAULT, or a string in single quotes of letters, digits, spaces and _,=+:./-", name)
		}
	}
	return nil
}

// readPassword returns a function that reads a file. The function never waits,
// whatever the file is.
func readPassword(path string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return plainfile.Password(path) }
}
