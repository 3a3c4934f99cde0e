package dbserver

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// To create a data folder takes seconds, to copy one a fraction of that. So each version of each program creates one
// template in the cache folder, and every server gets a copy.

// templateRevision is a part of the template's name: a change of initialize needs a new number.
const templateRevision = "1"

// A template that its maker left unfinished is older than this.
const abandoned = time.Hour

// fill makes the empty folder a data folder for the program.
func fill(ctx context.Context, p program, folder string) error {
	template, err := p.template()
	if err != nil {
		return initialize(ctx, p, folder) // without a cache folder there is no template
	}
	if _, err := os.Stat(template); errors.Is(err, fs.ErrNotExist) {
		if err := makeTemplate(ctx, p, template); err != nil {
			return err
		}
	}
	return copyFolder(ctx, template, folder)
}

// template returns where the template of this program is, or will be.
func (p program) template() (string, error) {
	cache, err := cacheFolder()
	if err != nil {
		return "", err
	}
	zones, err := timeZoneSQL()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return "", fmt.Errorf("create the cache folder: %w", err)
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{templateRevision, redoSize, zones, p.path, p.version}, "\n")))
	return filepath.Join(cache, fmt.Sprintf("data-%s-%x", p.kind, sum[:6])), nil
}

func makeTemplate(ctx context.Context, p program, template string) error {
	removeAbandoned(filepath.Dir(template))
	// Made beside its place and renamed at the end, so that a template is either complete or not there.
	draft, err := os.MkdirTemp(filepath.Dir(template), "draft-")
	if err != nil {
		return fmt.Errorf("create a template: %w", err)
	}
	defer os.RemoveAll(draft)
	if err := initialize(ctx, p, draft); err != nil {
		return err
	}
	if err := os.Rename(draft, template); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("keep the template: %w", err) // ErrExist: another process was quicker
	}
	return nil
}

func removeAbandoned(cache string) {
	drafts, err := filepath.Glob(filepath.Join(cache, "draft-*"))
	if err != nil {
		return // only a bad pattern is an error
	}
	for _, draft := range drafts {
		if info, err := os.Stat(draft); err == nil && time.Since(info.ModTime()) > abandoned {
			_ = os.RemoveAll(draft) // what stays is tried again by the next
		}
	}
}

// initialize lets the program create a data folder, with root able to connect over TCP without a password, and with
// some named time zones.
func initialize(ctx context.Context, p program, folder string) error {
	zones, err := timeZoneSQL()
	if err != nil {
		return err
	}
	user := userArgs()
	if p.kind == MySQL {
		return p.initializeMySQL(ctx, folder, zones, user)
	}
	install, err := installDB(p.path)
	if err != nil {
		return err
	}
	args := append([]string{
		"--no-defaults", "--datadir=" + folder, "--auth-root-authentication-method=normal", "--skip-test-db",
		"--skip-name-resolve", "--innodb-log-file-size=" + redoSize, "--innodb-use-native-aio=OFF",
	}, user...)
	if err := run(ctx, "", install, args...); err != nil {
		return err
	}
	args = append([]string{
		"--no-defaults", "--bootstrap", "--datadir=" + folder, "--innodb-log-file-size=" + redoSize,
		"--innodb-use-native-aio=OFF",
	}, user...)
	return run(ctx, zones, p.path, args...)
}

func (p program) initializeMySQL(ctx context.Context, folder, zones string, user []string) error {
	sql := filepath.Join(folder, "..", filepath.Base(folder)+".sql")
	statements := "CREATE USER root@'127.0.0.1';\nGRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;\n" + zones
	if err := os.WriteFile(sql, []byte(statements), 0o600); err != nil {
		return fmt.Errorf("write the first statements: %w", err)
	}
	defer os.Remove(sql)
	args := append([]string{
		"--no-defaults", "--initialize-insecure", "--datadir=" + folder, "--init-file=" + sql,
		"--innodb-redo-log-capacity=" + redoSize, "--innodb-use-native-aio=OFF", "--skip-log-bin",
	}, user...)
	if err := run(ctx, "", p.path, args...); err != nil {
		return err
	}
	// Holds the identity of one server; each copy makes its own.
	if err := os.Remove(filepath.Join(folder, "auto.cnf")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the server's identity: %w", err)
	}
	return nil
}

// userArgs allows a server to run as root, which both kinds refuse unless told.
func userArgs() []string {
	if os.Geteuid() == 0 {
		return []string{"--user=root"}
	}
	return nil
}

// copyFolder copies what is in the folder. Linux's cp makes copies that share their blocks where the file system can, and
// leaves out what is only zeros: most of it.
func copyFolder(ctx context.Context, from, to string) error {
	if err := run(ctx, "", "cp", "-R", "--reflink=auto", "--sparse=always", from+"/.", to); err == nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("copy the template: %w", err)
	}
	return run(ctx, "", "cp", "-R", from+"/.", to) // a cp without those options
}

// run runs a program to its end. Its output is a part of the error. It has a temporary folder of its own, since a MariaDB
// that starts removes the temporary tables that another one has in the same folder.
func run(ctx context.Context, input, name string, args ...string) error {
	temporary, err := os.MkdirTemp("", "cronlease-template-")
	if err != nil {
		return fmt.Errorf("create a temporary folder: %w", err)
	}
	defer os.RemoveAll(temporary)
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+temporary)
	cmd.Stdin = strings.NewReader(input)
	var out tail
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := runLocked(cmd); err != nil {
		return fmt.Errorf("run %s: %w\n%s", filepath.Base(name), err, out.String())
	}
	return nil
}
