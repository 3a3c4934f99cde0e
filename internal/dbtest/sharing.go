package dbtest

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
)

// NewSharingProxy starts a proxy for the server at the address target that sends the statements of each connection to two
// sessions in turn, as proxies do that share sessions among connections. It returns its address, and ends when the test
// does.
//
// It logs in to both sessions with what the client sends for the first, so the user must have no password, and no TLS.
func NewSharingProxy(tb testing.TB, target string) (addr string) {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("start a proxy: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // closed
			}
			work.Go(func() {
				defer context.AfterFunc(ctx, func() { _ = client.Close() })() // the goroutine that serves it closes it too
				defer client.Close()
				if err := share(ctx, client, target); err != nil && ctx.Err() == nil && !isEnd(err) {
					tb.Errorf("proxy: %v", err)
				}
			})
		}
	})
	tb.Cleanup(func() {
		cancel()
		_ = listener.Close() // closed once
		work.Wait()
	})
	return listener.Addr().String()
}

// isEnd reports that one side has closed its connection.
func isEnd(err error) bool {
	var network *net.OpError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.As(err, &network)
}

// share serves one client to its end.
func share(ctx context.Context, client net.Conn, target string) error {
	var sessions [2]net.Conn
	var login []byte
	for i := range sessions {
		session, err := new(net.Dialer).DialContext(ctx, "tcp", target)
		if err != nil {
			return err
		}
		defer session.Close()
		defer context.AfterFunc(ctx, func() { _ = session.Close() })()
		sessions[i] = session
		greeting, err := readPacket(session)
		if err != nil {
			return err
		}
		if i == 0 {
			if _, err := client.Write(greeting); err != nil {
				return err
			}
			if login, err = readPacket(client); err != nil {
				return err
			}
		}
		if _, err := session.Write(login); err != nil {
			return err
		}
		answer, err := readPacket(session)
		if err != nil {
			return err
		}
		if answer[4] != 0 {
			return errors.New("the server wants more than a user without a password")
		}
		if i == 0 {
			if _, err := client.Write(answer); err != nil {
				return err
			}
		}
	}
	var replies sync.WaitGroup
	defer replies.Wait()
	defer func() { // which ends the replies
		for _, session := range sessions {
			_ = session.Close()
		}
	}()
	for _, session := range sessions {
		replies.Go(func() { _, _ = io.Copy(client, session) }) // to the end of either
	}
	for turn := 0; ; turn++ {
		request, err := readPacket(client)
		if err != nil {
			return err
		}
		if _, err := sessions[turn%len(sessions)].Write(request); err != nil {
			return err
		}
	}
}

// readPacket reads a packet of the protocol, header and all.
func readPacket(from io.Reader) ([]byte, error) {
	header := make([]byte, 4)
	if _, err := io.ReadFull(from, header); err != nil {
		return nil, err
	}
	body := make([]byte, int(header[0])|int(header[1])<<8|int(header[2])<<16)
	if _, err := io.ReadFull(from, body); err != nil {
		return nil, err
	}
	return slices.Concat(header, body), nil
}
