package httpjob

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/cronlease/cronlease/internal/plainfile"
)

// TLS are files, in PEM, for requests to https addresses.
type TLS struct {
	CA        string // certificates to verify the server with, instead of the system's
	Cert, Key string // of the client; both or none
}

// maxPEM is the largest file of certificates or of a key.
const maxPEM = 1 << 20

// connections are those of all jobs with the same TLS files.
type connections struct {
	files TLS

	mu   sync.Mutex // guards all below
	read [][]byte   // what the files held
	http *http.Client
}

// client returns a client that uses what the files hold now. When that has changed,
// new connections are made, and running requests go on over the old ones.
func (c *connections) client() (*http.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var read [][]byte
	for _, file := range []struct{ setting, path string }{{"ca", c.files.CA}, {"cert", c.files.Cert}, {"key", c.files.Key}} {
		var data []byte
		if file.path != "" {
			var err error
			if data, err = plainfile.Read(file.path, maxPEM); err != nil {
				return nil, &SettingError{file.setting, err}
			}
		}
		read = append(read, data)
	}
	if c.http != nil && slices.EqualFunc(read, c.read, bytes.Equal) {
		return c.http, nil
	}
	config, err := c.files.config(read[0], read[1], read[2])
	if err != nil {
		return nil, err
	}
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
	c.read, c.http = read, newHTTP(config)
	return c.http, nil
}

func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
}

// config returns the settings for what the files hold.
func (t TLS) config(ca, cert, key []byte) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CA != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(ca) {
			return nil, &SettingError{"ca", errors.New(t.CA + ": expected certificates in PEM")}
		}
	}
	if t.Cert != "" {
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil { // which shows nothing of the key
			return nil, &SettingError{"cert", fmt.Errorf("%s and %s: expected a certificate and its key in PEM: %w", t.Cert, t.Key, err)}
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
