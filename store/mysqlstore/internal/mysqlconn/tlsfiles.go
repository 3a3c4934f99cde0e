package mysqlconn

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/cronlease/cronlease/internal/plainfile"
)

// tlsFiles are the parameters ca, cert, key and server_name of a DSN. Any of
// them means TLS with a server whose certificate is verified.
type tlsFiles struct {
	ca, cert, key string // paths of PEM files
	serverName    string // that the certificate has to be of; empty: the host's
}

func (f tlsFiles) given() bool { return f != tlsFiles{} }

// config reads the files.
func (f tlsFiles) config() (*tls.Config, error) {
	c := &tls.Config{ServerName: f.serverName, MinVersion: tls.VersionTLS12}
	if f.ca != "" {
		pem, err := plainfile.Read(f.ca, maxSecret)
		if err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca: %s: no certificate in PEM form in it", f.ca)
		}
	}
	switch {
	case f.cert == "" && f.key == "":
	case f.cert == "" || f.key == "":
		return nil, errors.New("cert and key belong together: one of them is missing")
	default:
		cert, err := plainfile.Read(f.cert, maxSecret)
		if err != nil {
			return nil, fmt.Errorf("cert: %w", err)
		}
		key, err := plainfile.Read(f.key, maxSecret)
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
