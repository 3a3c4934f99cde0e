// Package tlsfiles reads the files of TLS that the URL of a database names.
package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/cronlease/cronlease/internal/plainfile"
)

// Files are the parameters ca, cert, key and server_name of a URL. Any of
// them means TLS with a server whose certificate is verified.
type Files struct {
	CA, Cert, Key string // paths of PEM files
	ServerName    string // that the certificate has to be of; empty: the host's
}

// Given reports whether there is any of them.
func (f Files) Given() bool { return f != Files{} }

// Config reads the files.
func (f Files) Config() (*tls.Config, error) {
	c := &tls.Config{ServerName: f.ServerName, MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		pem, err := plainfile.Read(f.CA, plainfile.MostSecret)
		if err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca: %s: no certificate in PEM form in it", f.CA)
		}
	}
	switch {
	case f.Cert == "" && f.Key == "":
	case f.Cert == "" || f.Key == "":
		return nil, errors.New("cert and key belong together: one of them is missing")
	default:
		cert, err := plainfile.Read(f.Cert, plainfile.MostSecret)
		if err != nil {
			return nil, fmt.Errorf("cert: %w", err)
		}
		key, err := plainfile.Read(f.Key, plainfile.MostSecret)
		if err != nil {
			return nil, fmt.Errorf("key: %w", err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("cert and key: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
