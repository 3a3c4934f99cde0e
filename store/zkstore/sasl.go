package zkstore

import (
	"crypto/md5"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-zookeeper/zk"
)

// saslUser logs in by SASL with DIGEST-MD5 (RFC 2831), as ZooKeeper's own client does where a JAAS file names a user
// and a password. The client that this store uses knows no SASL, so the login happens below it, at the start of each
// connection.
type saslUser struct{ name, password string }

const (
	saslRequest = 102     // the operation
	maxToken    = 4 << 10 // RFC 2831: a challenge has less than 2048
	// digestURI names the service and the server, which ZooKeeper calls so wherever it runs.
	digestURI = "zookeeper/zk-sasl-md5"
)

var errNoSASL = fmt.Errorf("%w: the server offers no DIGEST-MD5, the only mechanism of SASL that this client has", zk.ErrAuthFailed)

// login logs in on a connection that has a session, and on which nothing else was sent. Errors match [zk.ErrAuthFailed]
// where the server refuses the user.
func (u *saslUser) login(conn io.ReadWriter) error {
	challenge, err := exchange(conn, nil)
	if err != nil && !errors.Is(err, zk.ErrAuthFailed) {
		return err
	}
	if challenge == nil { // it refuses before it knows of any user
		return errNoSASL
	}
	response, expected, err := u.answer(digestURI, string(challenge), rand.Text())
	if err != nil {
		return err
	}
	confirmation, err := exchange(conn, []byte(response))
	switch {
	case errors.Is(err, io.EOF): // by which servers before 3.6 refuse
		return zk.ErrAuthFailed
	case err != nil:
		return err
	case confirmation == nil: // the server lets those in whom it refuses (allowSaslFailedClients)
		return zk.ErrAuthFailed
	case directives(string(confirmation))["rspauth"] != expected:
		return fmt.Errorf("%w: the server does not know the password", zk.ErrAuthFailed)
	}
	return nil
}

// answer returns the response to a challenge, and what the server has to confirm it with. Uri names the service; cnonce
// is a text that was never used before.
func (u *saslUser) answer(uri, challenge, cnonce string) (response, confirmation string, err error) {
	offer := directives(challenge)
	nonce, realm := offer["nonce"], offer["realm"]
	if nonce == "" || offer["algorithm"] != "md5-sess" {
		return "", "", errNoSASL
	}
	const count, quality = "00000001", "auth"
	secret := md5.Sum([]byte(u.name + ":" + realm + ":" + u.password))
	session := hexSum(string(secret[:]) + ":" + nonce + ":" + cnonce)
	proof := func(what string) string {
		return hexSum(strings.Join([]string{session, nonce, count, cnonce, quality, hexSum(what)}, ":"))
	}
	response = fmt.Sprintf(`charset=utf-8,username="%s",realm="%s",nonce="%s",nc=%s,cnonce="%s",digest-uri="%s",maxbuf=65536,response=%s,qop=%s`,
		quote(u.name), quote(realm), quote(nonce), count, cnonce, uri, proof("AUTHENTICATE:"+uri), quality)
	return response, proof(":" + uri), nil
}

func hexSum(text string) string {
	sum := md5.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

var quote = strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace

// directives reads a list such as realm="a",nonce="b",algorithm=md5-sess. Of those that are repeated, the first counts.
func directives(text string) map[string]string {
	all := map[string]string{}
	for text != "" {
		name, rest, ok := strings.Cut(text, "=")
		if !ok {
			break
		}
		var value strings.Builder
		quoted, i := false, 0
		for ; i < len(rest) && (quoted || rest[i] != ','); i++ {
			switch {
			case rest[i] == '"':
				quoted = !quoted
			case quoted && rest[i] == '\\' && i+1 < len(rest):
				i++
				value.WriteByte(rest[i])
			default:
				value.WriteByte(rest[i])
			}
		}
		name = strings.ToLower(strings.TrimSpace(name))
		if _, known := all[name]; !known {
			all[name] = strings.TrimSpace(value.String())
		}
		text = rest[min(i+1, len(rest)):]
	}
	return all
}

// exchange sends a token, and returns the one in the answer: nil if there is none.
func exchange(conn io.ReadWriter, token []byte) ([]byte, error) {
	request := binary.BigEndian.AppendUint32(nil, uint32(12+len(token)))
	request = binary.BigEndian.AppendUint32(request, 0) // the number of the request
	request = binary.BigEndian.AppendUint32(request, saslRequest)
	request = binary.BigEndian.AppendUint32(request, uint32(len(token)))
	if _, err := conn.Write(append(request, token...)); err != nil {
		return nil, err
	}
	head := make([]byte, 4)
	if _, err := io.ReadFull(conn, head); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(head)
	if length < headerSize || length > headerSize+4+maxToken {
		return nil, errForeign
	}
	answer := make([]byte, length)
	if _, err := io.ReadFull(conn, answer); err != nil {
		return nil, err
	}
	number, code := binary.BigEndian.Uint32(answer), binary.BigEndian.Uint32(answer[12:])
	switch {
	case number != 0:
		return nil, errForeign
	case code != 0: // there are several for a refused login
		return nil, zk.ErrAuthFailed
	}
	answer = answer[headerSize:]
	if len(answer) < 4 {
		return nil, nil
	}
	size := int32(binary.BigEndian.Uint32(answer))
	if answer = answer[4:]; int(size) > len(answer) {
		return nil, errForeign
	}
	if size < 0 {
		return nil, nil
	}
	return answer[:size], nil
}
