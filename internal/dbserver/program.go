package dbserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The kinds of server.
const (
	MariaDB = "mariadb"
	MySQL   = "mysql"
	// NewMariaDB is a second MariaDB beside the system's own one, which is older where the system is. From 11.6.2 on
	// innodb_snapshot_isolation is ON by default: a transaction fails when it locks a row that changed after its snapshot.
	NewMariaDB = "mariadb-new"
)

// ErrNoProgram says that this machine has no server program of the wanted kind.
var ErrNoProgram = errors.New("no database server program on this machine")

// Kinds returns the known kinds.
func Kinds() []string { return []string{MariaDB, MySQL, NewMariaDB} }

// Dialect returns what a server of that kind speaks: MariaDB or MySQL.
func Dialect(kind string) string {
	if kind == NewMariaDB {
		return MariaDB
	}
	return kind
}

// VariableOf returns the name of the environment variable that may hold the path of the server program of that kind.
func VariableOf(kind string) string {
	switch kind {
	case MySQL:
		return "CRONLEASE_MYSQLD"
	case NewMariaDB:
		return "CRONLEASE_MARIADBD_NEW"
	}
	return "CRONLEASE_MARIADBD"
}

// Find returns the path of a server program of that kind: the one that the environment names (VariableOf), else one on
// the PATH or in a usual place, else, for MySQL, the one that scripts/install-databases prepared. For NewMariaDB that is the
// only place besides the environment. The error is ErrNoProgram if there is none, and names the reason if the one in the
// environment cannot be used.
func Find(ctx context.Context, kind string) (string, error) {
	if path := os.Getenv(VariableOf(kind)); path != "" {
		found, version, err := identify(ctx, path)
		if err != nil {
			return "", fmt.Errorf("use %s: %w", VariableOf(kind), err)
		}
		if found != Dialect(kind) {
			return "", fmt.Errorf("use %s: %s is %s", VariableOf(kind), path, version)
		}
		return path, nil
	}
	for _, path := range candidates(kind) {
		// mysqld may be either kind, and a program that does not even tell its version is no candidate.
		if found, _, err := identify(ctx, path); err == nil && found == Dialect(kind) {
			return path, nil
		}
	}
	return "", fmt.Errorf("find %s: %w", kind, ErrNoProgram)
}

func candidates(kind string) []string {
	if kind == NewMariaDB {
		return Prepared("CRONLEASE_MARIADB_NEW_DIR", "mariadb-new", "mariadbd")
	}
	names := []string{"mysqld"}
	if kind == MariaDB {
		names = []string{"mariadbd", "mysqld"}
	}
	dirs := filepath.SplitList(os.Getenv("PATH"))
	// An ordinary user's PATH often lacks the places of server programs.
	dirs = append(dirs, "/usr/local/sbin", "/usr/sbin", "/usr/libexec", "/usr/local/mysql/bin",
		"/opt/homebrew/opt/mariadb/bin")
	var paths []string
	for _, name := range names {
		for _, dir := range dirs {
			if dir == "" {
				continue
			}
			if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				paths = append(paths, path)
			}
		}
	}
	if kind == MySQL {
		paths = append(paths, Prepared("CRONLEASE_MYSQL_DIR", "mysql", "mysqld")...)
	}
	return paths
}

// Prepared returns where scripts/install-databases puts a program: in the folder that the variable names, or in one of
// that name in the cache.
func Prepared(variable, folder, program string) []string {
	if dir := os.Getenv(variable); dir != "" {
		return []string{filepath.Join(dir, program)}
	}
	cache, err := cacheFolder()
	if err != nil {
		return nil
	}
	return []string{filepath.Join(cache, folder, program)}
}

// cacheFolder holds what is worth keeping between runs. It follows the same rule as scripts/install-databases.
func cacheFolder() (string, error) {
	if dir := os.Getenv("XDG_CACHE_HOME"); dir != "" {
		return filepath.Join(dir, "cronlease"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder: %w", err)
	}
	return filepath.Join(home, ".cache", "cronlease"), nil
}

// identify asks the program what it is.
func identify(ctx context.Context, path string) (kind, version string, err error) {
	out, err := exec.CommandContext(ctx, path, "--no-defaults", "--version").Output()
	if err != nil {
		return "", "", fmt.Errorf("ask %s for its version: %w", path, err)
	}
	version = strings.TrimSpace(string(out))
	if strings.Contains(version, "MariaDB") {
		return MariaDB, version, nil
	}
	return MySQL, version, nil
}

// installDB returns the program that creates the data folder of a MariaDB server. It is installed beside the server, or
// in the bin folder next to the server's sbin or libexec.
func installDB(server string) (string, error) {
	dirs := append([]string{filepath.Dir(server), filepath.Join(filepath.Dir(server), "..", "bin")},
		filepath.SplitList(os.Getenv("PATH"))...)
	for _, name := range []string{"mariadb-install-db", "mysql_install_db"} {
		for _, dir := range dirs {
			if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil && dir != "" {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("find mariadb-install-db for %s: %w", server, fs.ErrNotExist)
}
