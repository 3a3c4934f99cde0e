package dbserver

import (
	"context"
	"fmt"
	"strings"
)

// GivenVariable is the name of the environment variable that may hold the DSN of a running server for the tests. They
// then use that one alone.
const GivenVariable = "CRONLEASE_TEST_DSN"

// DSNVariableOf returns the name of the environment variable that holds the DSN of the tests' server of that kind.
func DSNVariableOf(kind string) string {
	switch kind {
	case MySQL:
		return "CRONLEASE_TEST_MYSQL_DSN"
	case NewMariaDB:
		return "CRONLEASE_TEST_MARIADB_NEW_DSN"
	}
	return "CRONLEASE_TEST_MARIADB_DSN"
}

// Ask asks the server behind the DSN for its kind, MariaDB or MySQL, and version.
func Ask(ctx context.Context, dsn string) (kind, version string, err error) {
	db, err := openDB(dsn)
	if err != nil {
		return "", "", err
	}
	defer db.Close()
	if err := db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return "", "", fmt.Errorf("ask the server for its version: %w", err)
	}
	if strings.Contains(version, "MariaDB") {
		return MariaDB, version, nil
	}
	return MySQL, version, nil
}
