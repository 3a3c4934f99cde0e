package dbtest

import "bytes"

// Replace writes another text of the same length in the place of a text in all that clients send from now on, as a proxy
// that understands a part of what passes it. Pass does not end it. It finds what one read from the network has in whole,
// as it has the statements of tests.
func (p *Proxy) Replace(text, by string) { p.replaceIn(ToServer, text, by) }

// ReplaceReplies is Replace for what the server sends.
func (p *Proxy) ReplaceReplies(text, by string) { p.replaceIn(ToClient, text, by) }

func (p *Proxy) replaceIn(d Direction, text, by string) {
	if len(text) != len(by) {
		p.tb.Fatalf("replace %q by %q: they must be of one length", text, by)
	}
	p.change(func() { p.replaced[d] = append(p.replaced[d], [2][]byte{[]byte(text), []byte(by)}) })
}

// replace changes what was sent in that direction.
func (p *Proxy) replace(d Direction, sent []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.replaced[d] {
		for rest := sent; ; {
			i := bytes.Index(rest, r[0])
			if i < 0 {
				break
			}
			rest = rest[i+copy(rest[i:], r[1]):]
		}
	}
}
