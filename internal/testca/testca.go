// Package testca signs certificates for tests of TLS.
package testca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates.
type Authority struct {
	t      testing.TB
	folder string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
}

// New returns an authority that writes into a folder, beginning with its own certificate, ca.pem.
func New(t testing.TB, folder string) *Authority {
	t.Helper()
	a := &Authority{t: t, folder: folder}
	a.Sign("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// Sign writes a certificate, name.pem, and its key, name-key.pem. The certificate is valid for an hour.
func (a *Authority) Sign(name string, c *x509.Certificate) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.ok(err)
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if a.cert == nil {
		a.cert, a.key = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &key.PublicKey, a.key)
	a.ok(err)
	text, err := x509.MarshalPKCS8PrivateKey(key)
	a.ok(err)
	for file, block := range map[string]*pem.Block{name + ".pem": {Type: "CERTIFICATE", Bytes: der}, name + "-key.pem": {Type: "PRIVATE KEY", Bytes: text}} {
		// A server reads them as another user.
		a.ok(os.WriteFile(filepath.Join(a.folder, file), pem.EncodeToMemory(block), 0o644))
	}
	if a.cert == c {
		a.cert, err = x509.ParseCertificate(der)
		a.ok(err)
	}
}

func (a *Authority) ok(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}
