package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/cronlease/cronlease/cmd/worker/internal/web"
)

func newPassword() *cobra.Command {
	return &cobra.Command{
		Use:   "password NAME",
		Short: "Print a user's line for the page's file of passwords",
		Long: `Ask for a password, and print a user's line for the file that listen.password_file
names. It has a hash of the password (bcrypt). Where standard input is no terminal,
the password is its first line.`,
		Example: `  worker password alice >>/etc/worker/users`,
		Args: func(command *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef(command, "expected the name of one user")
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error {
			password, err := readPassword(command)
			if err != nil {
				return err
			}
			line, err := web.Hash(args[0], password)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(command.OutOrStdout(), line)
			return err
		},
	}
}

// readPassword reads a password: twice from a terminal, which does not show it, or one line.
func readPassword(command *cobra.Command) (string, error) {
	terminal := int(os.Stdin.Fd())
	if command.InOrStdin() != os.Stdin || !term.IsTerminal(terminal) {
		lines := bufio.NewScanner(io.LimitReader(command.InOrStdin(), 4096))
		if !lines.Scan() {
			return "", errors.New("no password: expected it in the first line of standard input")
		}
		return lines.Text(), lines.Err()
	}
	ask := func(what string) (string, error) {
		fmt.Fprint(command.ErrOrStderr(), what)
		defer fmt.Fprintln(command.ErrOrStderr())
		text, err := term.ReadPassword(terminal)
		return string(text), err
	}
	first, err := ask("Password: ")
	if err != nil {
		return "", err
	}
	second, err := ask("Again: ")
	if err == nil && first != second {
		err = errors.New("the two are not the same")
	}
	return first, err
}
