package openai

import (
	"context"
	"net"
	"strconv"
	"time"

	"weir/api"
	"weir/auth"
	"weir/engine"
	"weir/internal/jsontext"
	"weir/kvtransfer"
	"weir/server/failure"
	"weir/server/transport"
)

// Transfer says with whom the model exchanges the KV blocks of prompts. The zero value is nobody.
type Transfer struct {
	Node            *kvtransfer.Node // that the engine has for its Offload; nil: there is none
	Prefill, Decode bool             // prompts are computed for others; others compute prompts for this server
	EngineID        string           // what partners are told of this server
	Host            string           // where they reach it
	Port            int
}

// transferParams are kv_transfer_params, in the words of vLLM's connectors and proxies.
type transferParams struct {
	RemoteDecode  bool                `json:"do_remote_decode"`
	RemotePrefill bool                `json:"do_remote_prefill"`
	EngineID      *string             `json:"remote_engine_id"`
	BlockIDs      jsontext.RawMessage `json:"remote_block_ids"`
	Host          *string             `json:"remote_host"`
	Port          *int                `json:"remote_port"`
	RequestID     *string             `json:"remote_request_id"`
}

// transfers reads the kv_transfer_params of a request; nil: they have no effect, because there is no partner, or because the key has not
// the right to name one.
func (s *Service) transfers(m *Model, q *api.Options, from Sender) (*transferParams, *api.Error) {
	if q.KVTransferParams == nil {
		return nil, nil
	}
	switch {
	case m.Transfer.Node == nil:
		s.log.Debug("kv_transfer_params ignored: there is no connector", "id", from.ID)
		return nil, nil
	case from.Who.Rights&auth.Transfer == 0:
		s.log.Debug("kv_transfer_params ignored: the key has not the right transfer", "id", from.ID, "key", from.Who.Key)
		return nil, nil
	}
	p := &transferParams{}
	if err := jsontext.Decode(q.KVTransferParams, p); err != nil {
		return nil, failure.BadRequest("kv_transfer_params", "kv_transfer_params must have booleans in do_remote_decode and do_remote_prefill, strings in remote_engine_id, remote_request_id and remote_host, and a whole number in remote_port.")
	}
	p.BlockIDs = nil // blocks go by their content
	return p, nil
}

// settleWait is how long an answer is held back until the blocks of its prompt have been copied for a partner.
const settleWait = 2 * time.Second

// moving is what a request that is being computed has to do with a partner.
type moving struct {
	model *Model
	lease *kvtransfer.Lease // nil: nothing is held for a partner
}

// move asks the partner of a request for what it holds of the prompt, and prepares to hold that prompt for the next one. It waits for
// the partner for a bounded time.
func (s *Service) move(c *transport.Call, m *Model, p *prepared) {
	t := p.transfer
	if t == nil || len(p.requests) != 1 || p.requests[0].Prompt != nil {
		return
	}
	r := &p.requests[0]
	keys := m.Engine.PrefixKeys(r.Tokens, r.Salt)
	if len(keys) == 0 {
		return
	}
	if t.RemotePrefill && m.Transfer.Decode && t.Host != nil && t.Port != nil && t.RequestID != nil {
		addr := net.JoinHostPort(*t.Host, strconv.Itoa(*t.Port))
		lease, ok := kvtransfer.ParseLease(*t.RequestID)
		switch {
		case !ok:
		case !m.Transfer.Node.Knows(addr):
			s.log.Debug("kv_transfer_params ignored: the address is not one of --kv-transfer-peers", "id", p.reply.meta.ID, "address", addr)
		default:
			offer, err := m.Transfer.Node.Offer(c.Context(), addr, lease, keys)
			if err != nil {
				s.log.Debug("a prompt is computed here, because its partner does not answer", "id", p.reply.meta.ID, "error", err)
				break
			}
			r.Outside = engine.Outside{External: offer.Copies() > 0, Loaded: offer.End}
			c.AtEnd(offer.End)
		}
	}
	if t.RemoteDecode && m.Transfer.Prefill && !p.reply.stream { // a stream has no field that says where the blocks are
		if lease := m.Transfer.Node.Lease(keys); lease != nil {
			p.reply.moving = &moving{m, lease}
			c.AtEnd(func() {
				if p.reply.moving != nil { // it was not answered
					lease.End()
				}
			})
		}
	}
}

// settle says where a partner finds the blocks of the prompt of a request that has been computed; nil: nowhere.
func (r *reply) settle(ctx context.Context) api.Raw {
	if r.moving == nil {
		return nil
	}
	t, lease := &r.moving.model.Transfer, r.moving.lease
	ctx, done := context.WithTimeout(ctx, settleWait)
	defer done()
	_ = r.moving.model.Engine.CopiesOut(ctx) // what is not copied then is computed by the partner
	blocks := lease.Settle()
	r.moving = nil
	if blocks == 0 {
		lease.End()
		return nil
	}
	dst := append([]byte(nil), `{"do_remote_prefill":true,"do_remote_decode":false,"remote_block_ids":[`...)
	for i := range blocks {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(i), 10)
	}
	dst = append(dst, `],"remote_engine_id":`...)
	dst = api.AppendString(dst, t.EngineID)
	dst = append(dst, `,"remote_request_id":`...)
	dst = api.AppendString(dst, lease.ID())
	dst = append(dst, `,"remote_host":`...)
	dst = api.AppendString(dst, t.Host)
	dst = append(dst, `,"remote_port":`...)
	dst = strconv.AppendInt(dst, int64(t.Port), 10)
	return append(dst, `,"tp_size":1}`...)
}
