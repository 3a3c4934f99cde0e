package dbtest

import "bytes"

// Replace writes another text of the same length in the place of a text in all that clients send from now on, as a proxy
// that understands a part of what passes it. Pass does not end it. It finds what one read from the network has in whole,
// as it has the statements of tests.
func (p *Proxy) Replace(text, by string) {
	if len(text) != len(by) {
		p.tb.Fatalf("replace %q by %q: they must be of one length", text, by)
	}
	p.change(func() { p.replaced = append(p.replaced, [2][]byte{[]byte(text), []byte(by)}) })
}

// replace changes what a client has sent.
func (p *Proxy) replace(sent []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.replaced {
		for rest := sent; ; {
			i := bytes.Index(rest, r[0])
			if i < 0 {
				break
			}
			rest = rest[i+copy(rest[i:], r[1]):]
		}
	}
}
