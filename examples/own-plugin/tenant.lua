-- A request needs a tenant, and is signed for the server behind.
local secret = "a-secret-that-the-server-knows"

return function(conf, ctx)
    local core = require("apisix.core")
    local tenant = core.request.header(ctx, "X-Tenant")
    if not tenant or not tenant:match("^%l+$") then
        return 400, {message = "send the name of your tenant in X-Tenant"}
    end
    local text = tenant .. " " .. core.request.get_method() .. " " .. ctx.var.uri
    core.request.set_header(ctx, "X-Signature", ngx.encode_base64(ngx.hmac_sha1(secret, text)))
end
