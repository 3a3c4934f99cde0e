package dbtest

import (
	"encoding/binary"
	"net"
	"sync"
	"time"
)

// link is one connection through a proxy.
type link struct {
	proxy  *Proxy
	client net.Conn
	done   <-chan struct{} // closed when the link is
	cancel func()          // closes done

	mu         sync.Mutex // guards all below; a proxy's mutex may be held when it is locked, not the other way round
	server     net.Conn   // nil until connected
	closed     bool
	lost       *drop             // the order to swallow the next reply
	preparing  string            // the statement whose number is in the next reply
	statements map[uint32]string // prepared statements by number
}

// connect adds the server's side, unless the link is closed already.
func (l *link) connect(server net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = server.Close() // it was never used
		return false
	}
	l.server = server
	return true
}

func (l *link) close() { l.end(false) }

// reset closes both sides with an RST.
func (l *link) reset() { l.end(true) }

func (l *link) end(reset bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	l.cancel()
	for _, conn := range []net.Conn{l.client, l.server} {
		if conn == nil {
			continue
		}
		if tcp, ok := conn.(*net.TCPConn); ok && reset {
			_ = tcp.SetLinger(0) // fails only if the other side was quicker to close
		}
		_ = conn.Close() // closed once, so there is no error
	}
}

// hold waits as long as the proxy holds back in that direction what came at the given time. It returns false if the link
// was closed meanwhile.
func (l *link) hold(d Direction, came time.Time) bool {
	for {
		hole, delay, changed := l.proxy.state(d)
		left := time.Until(came.Add(delay))
		var over <-chan time.Time
		if !hole {
			if delay == 0 || left <= 0 {
				break
			}
			over = time.After(left)
		}
		select {
		case <-over:
		case <-changed:
		case <-l.done:
			return false
		}
	}
	select {
	case <-l.done:
		return false
	default:
		return true
	}
}

// requests carries what the client sends.
func (l *link) requests() {
	var packets splitter
	l.pump(ToServer, l.client, l.server, func(bytes []byte) *drop {
		l.proxy.replace(ToServer, bytes)
		if l.proxy.plain {
			return l.lose(string(bytes))
		}
		for _, packet := range packets.add(bytes) {
			if d := l.request(packet); d != nil {
				return d
			}
		}
		return nil
	})
}

// replies carries what the server sends.
func (l *link) replies() {
	l.pump(ToClient, l.server, l.client, func(bytes []byte) *drop {
		l.proxy.replace(ToClient, bytes)
		return l.reply(bytes)
	})
}

// pump carries bytes until either side ends, and then closes the link. It asks lose whether to lose them.
func (l *link) pump(d Direction, from, to net.Conn, lose func([]byte) *drop) {
	defer l.close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		came := time.Now()
		if n > 0 {
			if order := lose(buffer[:n]); order != nil {
				l.close()
				close(order.done)
				return
			}
		}
		// The end of a connection is held back too.
		if !l.hold(d, came) {
			return
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// Commands of the MySQL protocol: the first byte of a request.
const (
	commandQuery   = 0x03
	commandPrepare = 0x16
	commandExecute = 0x17
)

// request notes what a request does, and returns the order to lose it.
func (l *link) request(packet []byte) *drop {
	statement, ok := l.executed(packet)
	if !ok {
		return nil
	}
	return l.lose(statement)
}

// lose returns the order to lose the request of a statement. A reply to lose is left to the other pump.
func (l *link) lose(statement string) *drop {
	d := l.proxy.take(statement)
	if d != nil && d.direction == ToClient {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lost = d
		return nil
	}
	return d
}

// executed returns the statement that the request executes, if it does.
func (l *link) executed(packet []byte) (statement string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	body := packet[1:]
	switch packet[0] {
	case commandQuery:
		return string(body), true
	case commandExecute:
		if len(body) < 4 {
			return "", false
		}
		return l.statements[binary.LittleEndian.Uint32(body)], true
	case commandPrepare:
		l.preparing = string(body)
	}
	return "", false
}

// reply returns the order to lose what the server sent, and notes the number of a prepared statement.
func (l *link) reply(bytes []byte) *drop {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil {
		return l.lost
	}
	// A packet's header has 4 bytes; 0 is success, then comes the number.
	if l.preparing != "" && len(bytes) >= 9 && bytes[4] == 0 {
		if l.statements == nil {
			l.statements = map[uint32]string{}
		}
		l.statements[binary.LittleEndian.Uint32(bytes[5:])] = l.preparing
	}
	l.preparing = ""
	return nil
}

// splitter finds the requests in what a client sends.
type splitter struct{ rest []byte }

// add returns the requests, without their headers, that are complete with these bytes.
func (s *splitter) add(bytes []byte) [][]byte {
	s.rest = append(s.rest, bytes...)
	var packets [][]byte
	for len(s.rest) >= 4 {
		// Three bytes of length, one that counts the packets of an exchange: a request begins at 0, while the packets
		// of a login do not.
		length := int(s.rest[0]) | int(s.rest[1])<<8 | int(s.rest[2])<<16
		if len(s.rest) < 4+length {
			break
		}
		if s.rest[3] == 0 && length > 0 {
			packets = append(packets, s.rest[4:4+length:4+length])
		}
		s.rest = s.rest[4+length:]
	}
	return packets
}
