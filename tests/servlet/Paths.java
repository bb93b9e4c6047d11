import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;

/** Answers each request with the path that the container resolved it to. */
public class Paths extends HttpServlet {
    @Override
    protected void service(HttpServletRequest request, HttpServletResponse response) throws IOException {
        String rest = request.getPathInfo();
        response.setContentType("text/plain;charset=UTF-8");
        response.getWriter().print(request.getServletPath() + (rest == null ? "" : rest));
    }
}
